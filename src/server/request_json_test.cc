#include "server/request_json.h"

#include <gtest/gtest.h>

#include "frontend/api_error.h"
#include "server/http.h"

namespace octavo {
namespace {

std::string refused(const std::string& body) {
  try {
    parse_object(body);
  } catch (const ApiError& e) {
    EXPECT_EQ(e.status, 400);
    return e.what();
  }
  return "";
}

// BL-30
TEST(RequestJson, DepthIsCheckedBeforeParsing) {
  for (int depth : {129, 3000, 500000})
    EXPECT_NE(refused("{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}"), "") << depth;
  EXPECT_EQ(refused("{\"a\":" + std::string(127, '[') + std::string(127, ']') + "}"), "");
  EXPECT_EQ(refused("{\"a\":\"" + std::string(5000, '[') + "\"}"), "");      // in a string
  EXPECT_EQ(refused("{\"a\":\"\\\"" + std::string(5000, '[') + "\"}"), "");  // behind an escaped quote
  EXPECT_TRUE(nests_deeper(std::string(600000, '['), 128));                  // never closed
}

std::string object_of(int keys) {
  std::string out = "{";
  for (int i = 0; i < keys; ++i) out += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":[{\"a\":1}]";
  return out + "}";
}

TEST(RequestJson, ObjectsOfVeryManyKeysAreRefusedAtOnce) {
  EXPECT_EQ(refused(object_of(9000)), "");
  EXPECT_NE(refused(object_of(200000)).find("too many keys"), std::string::npos);
  std::string several = "{\"a\":[" + object_of(6000);  // 18 M comparisons each
  for (int i = 0; i < 3; ++i) several += "," + object_of(6000);
  EXPECT_NE(refused(several + "]}").find("too many keys"), std::string::npos);
  EXPECT_EQ(refused("{\"a\":\"" + std::string(100000, ':') + "\"}"), "");  // in a string
  EXPECT_EQ(refused("{\"a\":[" + std::string(200000, ' ') + "1]}"), "");
}

TEST(RequestJson, FaultsDoNotQuoteTheBody) {
  for (const char* body : {"", "{", "[1]", "{\"a\":\"\xff\"}", "{\"a\":1e999}", "nul"}) {
    std::string message = refused(body);
    EXPECT_NE(message, "") << body;
    EXPECT_EQ(message.find('\xff'), std::string::npos);
  }
}

// BL-02
TEST(RequestJson, DumpNeverThrows) {
  EXPECT_EQ(dump({{"a", "x\x90y"}}), "{\"a\":\"x\xEF\xBF\xBDy\"}");
  EXPECT_EQ(dump({{"a", "\xE5\"\\"}}), "{\"a\":\"\xEF\xBF\xBD\\\"\\\\\"}");
}

TEST(RequestJson, TypedFields) {
  Json body = Json::parse(
      R"({"i":3,"f":2.5,"whole":4.0,"s":"x","b":true,"n":null,"l":[1,2],"u":18446744073709551615,"ss":["a","b"]})");
  Fields fields(body);
  EXPECT_EQ(fields.integer("i"), 3);
  EXPECT_EQ(fields.integer("whole"), 4);
  EXPECT_EQ(fields.number("f"), 2.5);
  EXPECT_EQ(fields.integer("n"), std::nullopt);
  EXPECT_EQ(fields.text("s"), "x");
  EXPECT_TRUE(fields.flag("b", false));
  EXPECT_EQ(fields.integers("l"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(fields.texts("s"), std::vector<std::string>{"x"});
  EXPECT_EQ(fields.texts("ss").size(), 2u);
  EXPECT_THROW(fields.integer("f"), ApiError);
  EXPECT_THROW(fields.integer("u"), ApiError);
  EXPECT_THROW(fields.integer("b"), ApiError);
  EXPECT_THROW(fields.number("s"), ApiError);
  EXPECT_THROW(fields.text("i"), ApiError);
  EXPECT_THROW(fields.flag("i", true), ApiError);
  EXPECT_THROW(fields.object("l"), ApiError);
  EXPECT_THROW(fields.integers("ss"), ApiError);
  try {
    Fields(body, "outer.").text("i");
  } catch (const ApiError& e) {
    EXPECT_EQ(e.param, "outer.i");
  }
}

TEST(RequestJson, ContentType) {
  HttpRequest request{.method = "POST",
                      .path = "/",
                      .query = "",
                      .headers = {{"content-type", "Application/JSON; charset=utf-8"}},
                      .body = "{}"};
  EXPECT_NO_THROW(parse_body(request));
  request.headers = {{"content-type", "text/plain"}};
  EXPECT_THROW(parse_body(request), ApiError);
  request.headers.clear();
  EXPECT_THROW(parse_body(request), ApiError);
}

TEST(Target, Split) {
  std::string path, query;
  ASSERT_TRUE(split_target("//v1//mod%65ls?a=b#c", path, query));
  EXPECT_EQ(path, "/v1/models");
  EXPECT_EQ(query, "a=b");
  ASSERT_TRUE(split_target("http://host:80/v1/models", path, query));
  EXPECT_EQ(path, "/v1/models");
  ASSERT_TRUE(split_target("http://host", path, query));
  EXPECT_EQ(path, "/");
  EXPECT_TRUE(split_target("*", path, query));
  for (const char* bad : {"", "v1", "/%", "/%4", "/%zz"}) EXPECT_FALSE(split_target(bad, path, query)) << bad;
}

}  // namespace
}  // namespace octavo
