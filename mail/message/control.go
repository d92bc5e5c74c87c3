package message

import "strings"

// ControlYes stands for a YES to a challenge that is not open. It is none of the
// words that Control gives.
const ControlYes = "YES"

// Control is the control word a mail consists of (DESIGN 6): "STOP", "HALT",
// "GO" or "STATUS", alone in the new text, in any case, a full stop or an
// exclamation mark behind it allowed; else "".
func Control(replyText string) string {
	word := strings.ToUpper(strings.TrimRight(strings.TrimSpace(replyText), ".!"))
	switch word {
	case "STOP", "HALT", "GO", "STATUS":
		return word
	}
	return ""
}
