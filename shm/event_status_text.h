// Says a completion's status in words.
#ifndef CARILLON_SHM_EVENT_STATUS_TEXT_H_
#define CARILLON_SHM_EVENT_STATUS_TEXT_H_

#include <cstdint>
#include <string>

namespace carillon::shm {

// Puts a completion's status (EventStatus, or a kernel's own code) into
// words for people.
std::string EventStatusText(uint32_t status);

}  // namespace carillon::shm

#endif  // CARILLON_SHM_EVENT_STATUS_TEXT_H_
