package react

import "agentstateloop/turn"

// meter adds up the usage of one process's requests.
type meter struct {
	usage    turn.Usage
	costUSD  float64 // if the API reports it
	requests int     // answered requests
}

// add counts an answer and returns its number.
func (m *meter) add(a Answer) int {
	m.requests++
	m.usage.Input += a.Usage.Input
	m.usage.Output += a.Usage.Output
	m.usage.CacheRead += a.Usage.CacheRead
	m.usage.CacheWrite += a.Usage.CacheWrite
	m.costUSD += a.CostUSD
	return m.requests
}

// maxUsage is the most tokens of one kind that a request can use. Higher counts are ignored.
const maxUsage = 100_000_000

// used returns the usage of a request: the API's counts if they are plausible, otherwise an
// estimate. An API that does not count is not free. An answer that broke off was generated too,
// although an API may count it only at the end. A request that failed before any output is not
// estimated. whole means that the request did not fail.
func used(q Question, a Answer, whole bool) turn.Usage {
	u := a.Usage
	for _, n := range []int64{u.Input, u.Output, u.CacheRead, u.CacheWrite} {
		if n < 0 || n > maxUsage {
			u, whole = turn.Usage{}, true
			break
		}
	}
	if whole && u != (turn.Usage{}) || !whole && a.size() == 0 {
		return u
	}
	if u.Input+u.CacheRead+u.CacheWrite == 0 {
		u.Input = int64(q.size()) / bytesPerToken
	}
	u.Output = max(u.Output, int64(a.size())/bytesPerToken)
	return u
}
