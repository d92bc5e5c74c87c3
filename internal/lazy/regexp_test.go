package lazy

import (
	"sync"
	"testing"
)

func TestRegexpIsCompiledOnce(t *testing.T) {
	r := NewRegexp(`^a+$`)
	if r.re != nil {
		t.Error("compiled before its first use")
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if !r.Get().MatchString("aa") || r.Get().MatchString("b") {
				t.Error("matches something else")
			}
		})
	}
	all.Wait()
	if first := r.Get(); first != r.Get() {
		t.Error("compiled twice")
	}
}

func TestInvalidRegexpPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Get of an invalid expression returned")
		}
	}()
	NewRegexp(`(`).Get()
}
