package simulator

import "time"

// Shrink removes steps and faults from a story as long as fails still reports true,
// for at most patience. The rest is what the failure needs.
func Shrink(s Story, patience time.Duration, fails func(Story) bool) Story {
	end := time.Now().Add(patience)
	for shorter := true; shorter && time.Now().Before(end); {
		shorter = false
		for size := max(len(s.Steps)/2, 1); size >= 1; size /= 2 {
			for at := 0; at < len(s.Steps) && time.Now().Before(end); {
				cut := s.without(at, size)
				if !fails(cut) {
					at += size
					continue
				}
				s, shorter = cut, true
			}
		}
		for i := range s.Steps {
			for _, simpler := range s.Steps[i].simpler() {
				if !time.Now().Before(end) {
					break
				}
				tried := s.with(i, simpler)
				if fails(tried) {
					s, shorter = tried, true
					break
				}
			}
		}
	}
	return s
}

func (s Story) without(at, n int) Story {
	steps := append([]Step{}, s.Steps[:at]...)
	s.Steps = append(steps, s.Steps[min(at+n, len(s.Steps)):]...)
	return s
}

func (s Story) with(at int, step Step) Story {
	s.Steps = append([]Step{}, s.Steps...)
	s.Steps[at] = step
	return s
}

// simpler returns variants of the step with one thing less.
func (s Step) simpler() []Step {
	var list []Step
	for i := range s.Faults {
		t := s
		t.Faults = append(append([]Fault{}, s.Faults[:i]...), s.Faults[i+1:]...)
		list = append(list, t)
		if then := s.Faults[i].Then; then != nil {
			for _, simpler := range then.simpler() {
				t := s
				t.Faults = append([]Fault{}, s.Faults...)
				t.Faults[i].Then = &simpler
				list = append(list, t)
			}
		}
	}
	if len(s.Inside) > 0 {
		t := s
		t.Inside = nil
		list = append(list, t)
	}
	if s.Wish != "" && s.Wish != "answer" {
		t := s
		t.Wish = "answer"
		list = append(list, t)
	}
	return list
}
