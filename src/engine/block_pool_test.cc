#include "engine/block_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace octavo {
namespace {

BlockHash hash_of(int32_t n) { return block_hash({}, {&n, 1}); }

TEST(BlockHash, NamesTheWholePrefix) {
  int32_t a[] = {1, 2}, b[] = {2, 1};
  BlockHash root = root_hash("");
  EXPECT_EQ(block_hash(root, a), block_hash(root, a));
  EXPECT_FALSE(block_hash(root, a) == block_hash(root, b));
  EXPECT_FALSE(block_hash(block_hash(root, a), b) == block_hash(block_hash(root, b), b));
  EXPECT_FALSE(block_hash(root_hash("x"), a) == block_hash(root, a));
}

TEST(BlockPool, EmptyBlocksAreReusedBeforeCachedOnes) {
  BlockPool pool(4);
  int32_t a = pool.alloc(), b = pool.alloc(), c = pool.alloc();
  pool.publish(a, hash_of(1), 0);
  pool.publish(b, hash_of(2), 0);
  pool.release(b);
  pool.release(a);
  pool.release(c);
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_EQ(pool.alloc(), c);
  EXPECT_EQ(pool.alloc(), 3);
  EXPECT_EQ(pool.find(hash_of(2), 0), b);
  EXPECT_EQ(pool.alloc(), b);  // the least recently used
  EXPECT_EQ(pool.find(hash_of(2), 0), -1);
  EXPECT_EQ(pool.find(hash_of(1), 0), a);
  pool.acquire(a);
  EXPECT_EQ(pool.alloc(), -1);
}

TEST(BlockPool, GroupsDoNotShareContent) {
  BlockPool pool(2);
  pool.publish(pool.alloc(), hash_of(1), 0);
  EXPECT_EQ(pool.find(hash_of(1), 0), 0);
  EXPECT_EQ(pool.find(hash_of(1), 1), -1);
}

TEST(BlockPool, ACopySurvivesTheOther) {
  BlockPool pool(3);
  int32_t a = pool.alloc(), b = pool.alloc();
  pool.publish(a, hash_of(1), 0);
  pool.publish(b, hash_of(1), 0);
  pool.release(a);
  pool.alloc(), pool.alloc();  // takes a
  EXPECT_EQ(pool.find(hash_of(1), 0), b);
}

TEST(BlockPool, ResetOnlyWhenIdle) {
  BlockPool pool(2);
  int32_t a = pool.alloc();
  pool.publish(a, hash_of(1), 0);
  EXPECT_FALSE(pool.reset_cache());
  pool.release(a);
  EXPECT_TRUE(pool.reset_cache());
  EXPECT_EQ(pool.find(hash_of(1), 0), -1);
}

/// Against a plain model of what should be where.
TEST(BlockPool, RandomOperations) {
  BlockPool pool(16);
  std::mt19937 random(1);
  std::multiset<int32_t> held;
  std::vector<int> refs(16);
  std::vector<int32_t> content(16, -1);
  for (int i = 0; i < 20000; ++i) {
    int32_t n = static_cast<int32_t>(random() % 12);
    switch (random() % 3) {
      case 0: {
        int32_t b = pool.alloc();
        if (b < 0) break;
        ASSERT_EQ(refs[b], 0);
        refs[b] = 1;
        content[b] = -1;
        held.insert(b);
        if (random() % 2) pool.publish(b, hash_of(content[b] = n), 0);
        break;
      }
      case 1: {
        int32_t b = pool.find(hash_of(n), 0);
        if (b < 0) {
          ASSERT_EQ(std::count(content.begin(), content.end(), n), 0);
          break;
        }
        ASSERT_EQ(content[b], n);
        pool.acquire(b);
        ++refs[b];
        held.insert(b);
        break;
      }
      default: {
        if (held.empty()) break;
        auto it = std::next(held.begin(), static_cast<int64_t>(random() % held.size()));
        --refs[*it];
        pool.release(*it);
        held.erase(it);
      }
    }
    ASSERT_EQ(pool.num_free(), std::count(refs.begin(), refs.end(), 0));
  }
}

}  // namespace
}  // namespace octavo
