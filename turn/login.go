package turn

import (
	"strings"

	"agentstateloop/internal/lazy"
)

// NotLoggedIn is the exit code with which a program of runner "exec" reports that
// its own login was refused. It is EX_NOPERM of sysexits(3).
const NotLoggedIn = 77

// geminiNotLoggedIn is the exit code by which gemini reports that its login was refused.
const geminiNotLoggedIn = 41

// knownLogins are messages of well-known agents about a missing login. Scripts and ACP agents
// often call one of these agents. knownLogins is part of a regular expression.
const knownLogins = `not logged in|please run /login|codex login|invalid (x-)?api[ -]?key|api key not valid|authentication_error|please set an auth method`

// unauthorized matches the line by which any program reports that a server answered 401, or
// that its login has ended (RFC 9110, section 15.5.2; RFC 6750, section 3.1).
var unauthorized = lazy.NewRegexp(`(?i)` +
	`(^|: )[^a-z0-9]*401[^a-z0-9]*$` +
	`|\b(https?|status|code|error|api|response|returned|got|server|failed)\b[^0-9\n]{0,30}\b401\b` +
	`|\b401\b[^0-9a-z\n]{0,5}(unauthori[sz]ed|client error|error|auth|invalid|access|login|{)` +
	`|\bunauthori[sz]ed\b|\bunauthenticated\b|\binvalid_(api_key|token|grant)\b` +
	`|\b(api[ _-]?key|token|credentials?|log-?in|session|password)\b( is| are| has| have| was| were)?( been)? (not valid|invalid|expired|revoked|incorrect|refused|rejected)\b` +
	`|\b(invalid|expired|revoked|incorrect) ((access|auth|refresh|oauth|bearer|api|session)[ _-]?)?(key|token|credentials?|login)\b` +
	`|\bauthentication (has )?(failed|required|error|expired)\b` +
	`|\b(log|sign) ?in again\b|\b(login|log-in|sign-in) (is )?required\b|\b(must|need to|please|have to) (first )?(log|sign) ?in\b`)

// loginOfRunner returns the line by which a failed agent reports a refused login in the words of
// its runner, or "". The words count in every line of reported, which is the agent's error events
// and stderr. An exit code of the runner counts, too.
func (s *supervisor) loginOfRunner(res *Result, reported string) string {
	kind := s.output.agent
	if line := firstMatch(reported, kind.loginRefused); line != "" {
		return line
	}
	if kind.loginExit > 0 && res.ExitCode == kind.loginExit {
		return res.Reason
	}
	return ""
}

// loginOfAny is loginOfRunner for the words of any program. They count only where the agent
// explains its failure: in the reason and, for a program without a stream, in its last line. An
// earlier page that answered 401 does not count.
func (s *supervisor) loginOfAny(res *Result) string {
	kind := s.output.agent
	if !kind.anyLogin {
		return ""
	}
	last := []string{lastLine(res.Reason)}
	if kind.parse == nil && res.ExitCode != 0 {
		last = append(last, lastLine(res.Stderr), lastLine(res.Text))
	}
	return firstMatch(strings.Join(last, "\n"), unauthorized)
}
