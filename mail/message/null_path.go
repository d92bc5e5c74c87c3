package message

// IsNullPath reports whether the value of Return-Path is the null path of bounces: "<>",
// possibly with comments around it (RFC 5321 section 4.5.5).
func IsNullPath(v string) bool {
	tokens, err := lex(v)
	return err == nil && len(tokens) == 2 && tokens[0].Is("<") && tokens[1].Is(">")
}
