package state

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	want := []time.Duration{1, 1, 2, 4, 8, 16, 32, 60, 60}
	for failures, minutes := range want {
		if got := backoff(failures); got != minutes*time.Minute {
			t.Errorf("after %d failures: %v, want %v", failures, got, minutes*time.Minute)
		}
	}
	if got := backoff(1 << 40); got != time.Hour {
		t.Errorf("after very many: %v", got)
	}
}
