package react

import "testing"

// TestSummaryMarks checks that a new summary replaces an earlier one, also one that an earlier
// version wrote.
func TestSummaryMarks(t *testing.T) {
	for _, mark := range []string{summaryMark, oldSummaryMark} {
		l := loopWith(t, nil)
		l.conversation.apply(Step{Kind: StepSummary, Text: "the task" + mark + "one"})
		if got, want := l.summaryMessage("two"), "the task"+summaryMark+"two"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
