// Messages: whole lines on stderr, cut rather than overrun, errno kept.
#include "platform/message.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/assert.h"
#include "support/cases.h"

namespace near_test {
namespace {

std::string said_by(void (*speak)(const std::string&), const std::string& text) {
  testing::internal::CaptureStderr();
  errno = 77;
  speak(text);
  EXPECT_EQ(errno, 77);
  count_cases();
  return testing::internal::GetCapturedStderr();
}

void speak_message(const std::string& text) { near::message("%s", text.c_str()); }
void speak_print(const std::string& text) { near::print("%s", text.c_str()); }

TEST(Message, IsALineWithOurName) {
  EXPECT_EQ(said_by(speak_message, "7 is a number"), "nearmalloc: 7 is a number\n");
  EXPECT_EQ(said_by(speak_message, ""), "nearmalloc: \n");
  EXPECT_EQ(said_by(speak_print, "as it is"), "as it is");
}

TEST(Message, ALongOneIsCut) {
  for (size_t length = 450; length < 700; length++) {
    const std::string text(length, 'x');
    const std::string said = said_by(speak_message, text);
    ASSERT_LE(said.size(), 512u);
    ASSERT_EQ(said.back(), '\n');
    ASSERT_EQ(said.find_last_of('x'), said.size() - 2);
    if (length < 480) {
      ASSERT_EQ(said, "nearmalloc: " + text + "\n");
    }
    const std::string printed = said_by(speak_print, text);
    ASSERT_EQ(printed, text.substr(0, std::min<size_t>(length, 511)));
  }
}

TEST(Message, ReachesAStderrThatTheProgramClosed) {
  testing::internal::CaptureStderr();
  near::keep_stderr();
  const int before = dup(STDERR_FILENO);
  close(STDERR_FILENO);
  errno = 77;
  near::print("after the end");
  EXPECT_EQ(errno, 77);
  dup2(before, STDERR_FILENO);
  close(before);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "after the end");
  count_cases();
}

TEST(MessageDeathTest, AFailureNamesItsPlaceAndAborts) {
  EXPECT_DEATH(near::fail("one is two", "here.cc", 12), "nearmalloc: one is two \\(here.cc:12\\)");
  count_cases();
}

}  // namespace
}  // namespace near_test
