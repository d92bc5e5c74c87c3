package react

import "agentstateloop/turn"

// thinkFilter passes on the text of an answer as it arrives, without the thoughts at its
// beginning.
type thinkFilter struct {
	say  func(string)
	held string // text that is, or may be, a thought
	past bool   // the text after the thoughts has begun
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

// end passes on the held text, unless it is a thought.
func (f *thinkFilter) end() {
	if rest := turn.WithoutThoughts(f.held); !f.past && rest != "" {
		f.say(rest)
	}
}
