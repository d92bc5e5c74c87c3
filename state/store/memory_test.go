package store

import (
	"fmt"
	"os"
	"testing"
	"time"

	"agentstateloop/state"
)

// TestOldestMemoryIsDropped checks that a new memory of another agent takes the place of the one
// that was changed longest ago.
func TestOldestMemoryIsDropped(t *testing.T) {
	st := &Store{Dir: t.TempDir(), Agent: "a"}
	who := func(i int) state.Principal { return state.Principal(fmt.Sprintf("peer:p%03d", i)) }
	const oldest = state.MaxConversations / 2
	for i := range state.MaxConversations {
		check(t, st.KeepMemory(who(i), "x"))
		changed := time.Unix(2000, 0)
		if i == oldest {
			changed = time.Unix(1000, 0)
		}
		check(t, os.Chtimes(st.path(memoryFile(who(i))), changed, changed))
	}
	check(t, st.KeepMemory(who(state.MaxConversations), "x"))
	for i := range state.MaxConversations + 1 {
		if text, err := st.Memory(who(i)); (text == "") != (i == oldest) || err != nil {
			t.Errorf("memory %d, of which the oldest is %d: %q, %v", i, oldest, text, err)
		}
	}
}
