package store

import (
	"fmt"
	"os"
	"testing"
	"time"

	"agentstateloop/state"
)

// TestOldestMemoryIsReplaced checks that the memory of a new agent replaces the one with the oldest
// change.
func TestOldestMemoryIsReplaced(t *testing.T) {
	st := &Store{Dir: t.TempDir(), Agent: "a"}
	who := func(i int) state.Principal { return state.Principal(fmt.Sprintf("peer:p%03d", i)) }
	const oldest = state.MaxConversations / 2
	for i := range state.MaxConversations {
		if err := st.KeepMemory(who(i), "x"); err != nil {
			t.Fatal(err)
		}
		changed := time.Unix(2000, 0)
		if i == oldest {
			changed = time.Unix(1000, 0)
		}
		if err := os.Chtimes(st.path(memoryFile(who(i))), changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.KeepMemory(who(state.MaxConversations), "x"); err != nil {
		t.Fatal(err)
	}
	for i := range state.MaxConversations + 1 {
		if text, err := st.Memory(who(i)); (text == "") != (i == oldest) || err != nil {
			t.Errorf("memory %d, of which the oldest is %d: %q, %v", i, oldest, text, err)
		}
	}
}
