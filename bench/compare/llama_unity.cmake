# For llama.cpp's CMAKE_PROJECT_INCLUDE: its server links 45 small vision models, which compile four times as fast together.
if(PROJECT_NAME STREQUAL "llama.cpp")
  cmake_language(DEFER CALL set_target_properties mtmd PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  set(MTMD_ALONE mtmd.cpp mtmd-audio.cpp mtmd-image.cpp mtmd-helper.cpp mtmd-helper-gen.cpp clip.cpp)
  list(TRANSFORM MTMD_ALONE PREPEND ${CMAKE_SOURCE_DIR}/tools/mtmd/)
  cmake_language(
    DEFER CALL set_source_files_properties ${MTMD_ALONE} TARGET_DIRECTORY mtmd PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endif()
