package cycle_test

import (
	"bytes"
	"testing"

	"agentstateloop/state/store"
)

// BenchmarkSum measures what the sum adds to the keeping of a payload of 8 KiB, and
// what reading one takes with it.
func BenchmarkSum(b *testing.B) {
	st := &store.Store{Dir: b.TempDir(), Agent: handle}
	data := bytes.Repeat([]byte("a line of some length, as it is\n"), 256)
	sum, err := st.KeepSummed("messages/one", bytes.NewReader(data))
	check(b, err)
	for name, f := range map[string]func() error{
		"keep":           func() error { return st.Keep("messages/one", bytes.NewReader(data)) },
		"keep with sum":  func() error { _, err := st.KeepSummed("messages/one", bytes.NewReader(data)); return err },
		"read":           func() error { _, err := st.ReadSummed("messages/one", ""); return err },
		"read and check": func() error { _, err := st.ReadSummed("messages/one", sum); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				check(b, f())
			}
		})
	}
}
