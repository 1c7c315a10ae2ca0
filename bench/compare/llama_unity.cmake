# For llama.cpp's CMAKE_PROJECT_INCLUDE: its server links 45 small vision models, which compile four times as fast together.
if(PROJECT_NAME STREQUAL "llama.cpp")
  cmake_language(DEFER CALL set_target_properties mtmd PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  foreach(file mtmd mtmd-audio mtmd-image mtmd-helper mtmd-helper-gen clip)
    cmake_language(DEFER CALL set_source_files_properties ${CMAKE_SOURCE_DIR}/tools/mtmd/${file}.cpp TARGET_DIRECTORY mtmd
                   PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endif()
