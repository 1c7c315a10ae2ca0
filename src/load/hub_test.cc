#include "load/hub.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/mapped_file.h"
#include "load/hub_download.h"
#include "load/hub_http.h"
#include "load/progress.h"
#include "load/test_files.h"
#include "load/test_hub.h"

namespace octavo {
namespace {

using test::contains;
using test::error_of;
using test::TempFolder;
using test::TestHub;
namespace fs = std::filesystem;

std::string content_of(const std::string& path) { return read_text_file(path, 1 << 24); }

std::string noise(size_t size) {
  std::string out(size, '\0');
  uint32_t x = 1;
  for (char& c : out) c = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  return out;
}

class Hub : public testing::Test {
 protected:
  Hub() {
    options.cache = cache.path();
    options.endpoint = hub.url();
    hub.files = {
        {"config.json", "{}"},        {"tokenizer.json", "{\"a\":1}"}, {"model.safetensors", noise(300000)},
        {"pytorch_model.bin", "old"}, {"README.md", "text"},           {"empty", ""}};
  }
  std::string root() const { return cache / "models--org--tiny"; }
  std::string snapshot() const { return root() + "/snapshots/" + hub.commit; }
  /// No file that is not whole is under a final name, and none is left over.
  void expect_no_leftovers() {
    for (const auto& entry : fs::recursive_directory_iterator(cache.path()))
      EXPECT_EQ(entry.path().string().find(".incomplete"), std::string::npos) << entry.path();
  }

  TestHub hub;
  TempFolder cache;
  HubOptions options;
};

TEST_F(Hub, DownloadsWhatAModelNeedsInTheStandardLayout) {
  EXPECT_EQ(resolve_model("org/tiny", options), snapshot());
  for (const char* file : {"config.json", "tokenizer.json", "model.safetensors"})
    EXPECT_EQ(content_of(snapshot() + "/" + file), hub.files[file]);
  EXPECT_FALSE(fs::exists(snapshot() + "/README.md") || fs::exists(snapshot() + "/pytorch_model.bin"));
  std::string sha = test::digest(EVP_sha256(), hub.files["model.safetensors"]);
  EXPECT_EQ(fs::read_symlink(snapshot() + "/model.safetensors"), "../../blobs/" + sha);
  EXPECT_EQ(content_of(root() + "/refs/main"), hub.commit);
  EXPECT_TRUE(fs::exists(cache / (".locks/models--org--tiny/" + sha + ".lock")));
  expect_no_leftovers();

  // Again: one request, no file.
  size_t before = hub.requests().size();
  EXPECT_EQ(resolve_model("org/tiny", options), snapshot());
  EXPECT_EQ(hub.requests().size(), before + 1);
}

TEST_F(Hub, OfflineAndUnreachableUseTheCache) {
  options.offline = true;
  EXPECT_TRUE(contains(error_of([&] { resolve_model("org/tiny", options); }), "HF_HUB_OFFLINE"));
  EXPECT_TRUE(hub.requests().empty());
  options.offline = false;
  resolve_model("org/tiny", options);
  hub.stop();
  EXPECT_EQ(resolve_model("org/tiny", options), snapshot());
  options.offline = true;
  EXPECT_EQ(resolve_model("org/tiny", options), snapshot());
  fs::remove(snapshot() + "/model.safetensors");
  EXPECT_TRUE(contains(error_of([&] { resolve_model("org/tiny", options); }), "not in the cache"));
}

TEST_F(Hub, LocalPathWins) {
  TempFolder local;
  EXPECT_EQ(resolve_model(local.path(), options), local.path());
  EXPECT_TRUE(
      contains(error_of([&] { resolve_model(local / "absent", options); }), "no such folder or file"));
  EXPECT_TRUE(hub.requests().empty());
}

TEST_F(Hub, CutConnectionsResume) {
  hub.cuts = 3;
  resolve_model("org/tiny", options);
  EXPECT_EQ(content_of(snapshot() + "/model.safetensors"), hub.files["model.safetensors"]);
  std::vector<test::Request> downloads = hub.downloads();
  ASSERT_EQ(downloads.size(), 4u);
  EXPECT_EQ(downloads[0].range, "");
  EXPECT_EQ(downloads[1].range, "bytes=150000-");
  EXPECT_EQ(downloads[2].range, "bytes=225000-");
  expect_no_leftovers();
}

TEST_F(Hub, ServerWithoutRangesStartsAnew) {
  hub.cuts = 1;
  hub.ranges = false;
  resolve_model("org/tiny", options);
  EXPECT_EQ(content_of(snapshot() + "/model.safetensors"), hub.files["model.safetensors"]);
}

TEST_F(Hub, AnEarlierProcessIsContinued) {
  std::string sha = test::digest(EVP_sha256(), hub.files["model.safetensors"]);
  cache.write("models--org--tiny/blobs/" + sha + ".incomplete",
              hub.files["model.safetensors"].substr(0, 1000));
  resolve_model("org/tiny", options);
  EXPECT_EQ(hub.downloads().at(0).range, "bytes=1000-");
  EXPECT_EQ(content_of(snapshot() + "/model.safetensors"), hub.files["model.safetensors"]);
}

TEST_F(Hub, WrongContentIsNeverVisible) {
  hub.corrupt = true;
  EXPECT_TRUE(contains(error_of([&] { resolve_model("org/tiny", options); }),
                       "org/tiny/model.safetensors: the content does not match its checksum"));
  EXPECT_FALSE(fs::exists(snapshot() + "/model.safetensors"));
  EXPECT_FALSE(fs::exists(root() + "/refs/main"));
  EXPECT_FALSE(fs::exists(root() + "/blobs/" + test::digest(EVP_sha256(), hub.files["model.safetensors"]) +
                          ".incomplete"));
  hub.corrupt = false;
  EXPECT_EQ(resolve_model("org/tiny", options), snapshot());
}

TEST_F(Hub, EmptyFile) {
  download_files(options, {"org/tiny", hub.commit}, {"empty"});
  EXPECT_EQ(fs::file_size(snapshot() + "/empty"), 0u);
}

TEST_F(Hub, TokenGoesToTheHubOnly) {
  hub.token = "secret";
  EXPECT_TRUE(contains(error_of([&] { resolve_model("org/tiny", options); }), "refuses access (401)"));
  options.token = "secret";
  EXPECT_EQ(resolve_model("org/tiny", options), snapshot());
  for (const test::Request& request : hub.downloads()) EXPECT_EQ(request.authorization, "");
}

TEST_F(Hub, AbsentThings) {
  EXPECT_TRUE(contains(error_of([&] { resolve_model("org/other", options); }),
                       "org/other (revision main): not found"));
  options.revision = "v9";
  EXPECT_TRUE(contains(error_of([&] { resolve_model("org/tiny", options); }), "(revision v9): not found"));
  EXPECT_TRUE(contains(error_of([&] {
                         download_files(options, {"org/tiny", hub.commit}, {"gone.json"});
                       }),
                       "org/tiny/gone.json: not found on the hub (404)"));
}

TEST_F(Hub, RevisionsWithSlashes) {
  options.revision = "refs/pr/1";
  EXPECT_EQ(resolve_model("org/tiny", options), snapshot());
  EXPECT_EQ(content_of(root() + "/refs/refs/pr/1"), hub.commit);
  options.revision = "../../x";
  EXPECT_TRUE(contains(error_of([&] { resolve_model("org/tiny", options); }), "leaves its folder"));
}

TEST_F(Hub, ACompleteCommitNeedsNoHub) {
  resolve_model("org/tiny", options);
  size_t before = hub.requests().size();
  options.revision = hub.commit;
  EXPECT_EQ(resolve_model("org/tiny", options), snapshot());
  EXPECT_EQ(hub.requests().size(), before);
}

TEST_F(Hub, RenamedRepositoriesRedirect) {
  EXPECT_EQ(resolve_model("old/name", options), cache / ("models--old--name/snapshots/" + hub.commit));
}

TEST_F(Hub, BusyHubIsTriedAgain) {
  resolve_model("org/tiny", options);
  fs::remove_all(root());
  hub.busy = 2;
  download_files(options, {"org/tiny", hub.commit}, {"config.json"});
  EXPECT_EQ(content_of(snapshot() + "/config.json"), "{}");
}

TEST_F(Hub, ShardsInParallel) {
  hub.files.erase("model.safetensors");
  std::string map;
  for (int i = 0; i < 6; ++i) {
    std::string name = "model-" + std::to_string(i) + ".safetensors";
    hub.files[name] = noise(100000 + i);
    map += (i ? ",\"t" : "\"t") + std::to_string(i) + "\":\"" + name + "\"";
  }
  hub.files["consolidated.safetensors"] = "the same again";
  hub.files["model.safetensors.index.json"] = "{\"weight_map\":{" + map + "}}";
  hub.cuts = 3;
  resolve_model("org/tiny", options);
  for (int i = 0; i < 6; ++i) {
    std::string name = "model-" + std::to_string(i) + ".safetensors";
    EXPECT_EQ(content_of(snapshot() + "/" + name), hub.files[name]);
  }
  EXPECT_FALSE(fs::exists(snapshot() + "/consolidated.safetensors"));
  options.offline = true;
  EXPECT_EQ(resolve_model("org/tiny", options), snapshot());
  fs::remove(snapshot() + "/model-3.safetensors");
  EXPECT_TRUE(contains(error_of([&] { resolve_model("org/tiny", options); }), "not in the cache"));
}

TEST_F(Hub, HostileNamesAreRefused) {
  hub.files.erase("model.safetensors");
  hub.files["model.safetensors.index.json"] = R"({"weight_map":{"t":"../../../evil.safetensors"}})";
  EXPECT_TRUE(contains(error_of([&] { resolve_model("org/tiny", options); }), "leaves its folder"));
  hub.files.erase("model.safetensors.index.json");
  hub.files["model.safetensors"] = "x";
  hub.commit = "../../../../evil";
  EXPECT_TRUE(contains(error_of([&] { resolve_model("org/tiny", options); }), "names no commit"));
}

TEST_F(Hub, GgufByQuantOrName) {
  hub.files = {{"tiny-Q4_K_M.gguf", noise(500)},
               {"tiny-Q8_0-00001-of-00002.gguf", noise(600)},
               {"tiny-Q8_0-00002-of-00002.gguf", noise(700)},
               {"sub/tiny-f16.gguf", noise(800)}};
  EXPECT_EQ(resolve_model("org/tiny:q4_k_m", options), snapshot() + "/tiny-Q4_K_M.gguf");
  EXPECT_EQ(hub.downloads().size(), 1u);
  EXPECT_EQ(resolve_model("org/tiny:Q8_0", options), snapshot() + "/tiny-Q8_0-00001-of-00002.gguf");
  EXPECT_TRUE(fs::exists(snapshot() + "/tiny-Q8_0-00002-of-00002.gguf"));
  EXPECT_EQ(resolve_model("org/tiny/sub/tiny-f16.gguf", options), snapshot() + "/sub/tiny-f16.gguf");
  EXPECT_EQ(fs::read_symlink(snapshot() + "/sub/tiny-f16.gguf").string().substr(0, 15), "../../../blobs/");
  EXPECT_TRUE(contains(error_of([&] { resolve_model("org/tiny", options); }), "picks 3 GGUF models"));
  EXPECT_TRUE(contains(error_of([&] { resolve_model("org/tiny:Q2_K", options); }), "tiny-Q4_K_M.gguf"));
  options.offline = true;
  EXPECT_EQ(resolve_model("org/tiny:Q4_K_M", options), snapshot() + "/tiny-Q4_K_M.gguf");
}

TEST_F(Hub, TwoAtOnceDownloadOnce) {
  std::string first, second;
  std::thread other([&] { first = resolve_model("org/tiny", options); });
  second = resolve_model("org/tiny", options);
  other.join();
  EXPECT_EQ(first, second);
  EXPECT_EQ(hub.downloads().size(), 1u);
  EXPECT_EQ(content_of(snapshot() + "/model.safetensors"), hub.files["model.safetensors"]);
}

TEST(HubId, Forms) {
  EXPECT_EQ(parse_hub_id("gpt2").repo, "gpt2");
  EXPECT_EQ(parse_hub_id("a/b.c-1_2").repo, "a/b.c-1_2");
  EXPECT_EQ(parse_hub_id("a/b:Q4_0").variant, "Q4_0");
  EXPECT_EQ(parse_hub_id("a/b/c/d.gguf").variant, "c/d.gguf");
  for (const char* bad :
       {"", "/", "a/", "/a", "a//b", "a/b/c", "../a", "a/..", ".a/b", "a b", "a/b?c", "a--b/c", "~/m"})
    EXPECT_TRUE(contains(error_of([&] { parse_hub_id(bad); }), "not a hub id")) << bad;
  EXPECT_TRUE(contains(error_of([] { parse_hub_id("a/b:../../c.gguf"); }), "leaves its folder"));
}

TEST(HubOptions, FromEnvironment) {
  TempFolder home;
  for (const char* name :
       {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"})
    unsetenv(name);
  setenv("HOME", "/home/u", 1);
  EXPECT_EQ(hub_options_from_environment().cache, "/home/u/.cache/huggingface/hub");
  EXPECT_EQ(hub_options_from_environment().endpoint, "https://huggingface.co");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(hub_options_from_environment().cache, "/x/huggingface/hub");
  setenv("HF_HOME", home.path().c_str(), 1);
  home.write("token", "hf_file\n");
  EXPECT_EQ(hub_options_from_environment().cache, home / "hub");
  EXPECT_EQ(hub_options_from_environment().token, "hf_file");
  setenv("HF_TOKEN", " hf_env\n", 1);
  EXPECT_EQ(hub_options_from_environment().token, "hf_env");
  setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
  EXPECT_EQ(hub_options_from_environment().cache, "/old");
  setenv("HF_HUB_CACHE", "/new", 1);
  EXPECT_EQ(hub_options_from_environment().cache, "/new");
  setenv("HF_ENDPOINT", "http://mirror/", 1);
  EXPECT_EQ(hub_options_from_environment().endpoint, "http://mirror");
  EXPECT_FALSE(hub_options_from_environment().offline);
  setenv("HF_HUB_OFFLINE", "true", 1);
  EXPECT_TRUE(hub_options_from_environment().offline);
}

TEST(ProgressBar, ShowsShareAndSize) {
  testing::internal::CaptureStderr();
  {
    ProgressBar bar("org/tiny", true);
    bar.add_total(2000000);
    bar.add_done(1000000);
  }
  std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(shown, "org/tiny [############............]  50 %  1.0 / 2.0 MB"));
  EXPECT_TRUE(shown.ends_with("\n"));
  testing::internal::CaptureStderr();
  { ProgressBar("org/tiny", false).add_total(5); }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(EncodePath, KeepsSlashesOnly) {
  EXPECT_EQ(encode_path("a b/c%d"), "a%20b/c%25d");
  EXPECT_EQ(encode_segment("refs/pr/1"), "refs%2Fpr%2F1");
}

}  // namespace
}  // namespace octavo
