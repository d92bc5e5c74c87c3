package react

import "agentstateloop/turn"

// thinkFilter passes on the text of an answer as it comes, without the thoughts that it begins
// with.
type thinkFilter struct {
	say  func(string)
	held string // what may be, or is, a thought
	past bool   // the text has begun
}

func (f *thinkFilter) add(text string) {
	if f.past {
		f.say(text)
		return
	}
	f.held += text
	rest, undecided := turn.AfterThoughts(f.held)
	if undecided {
		return
	}
	f.past, f.held = true, ""
	if rest != "" {
		f.say(rest)
	}
}

// end passes on what was held, unless it is a thought.
func (f *thinkFilter) end() {
	if rest := turn.WithoutThoughts(f.held); !f.past && rest != "" {
		f.say(rest)
	}
}
