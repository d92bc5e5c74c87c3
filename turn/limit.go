package turn

import (
	"cmp"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"agentstateloop/internal/lazy"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// TryLater is the exit code with which a program of runner "exec" reports that it cannot answer
// now but can later: EX_TEMPFAIL of sysexits(3). The program's last line may give the time.
const TryLater = 75

// Outage is the reason why an attempt cannot be made now but can be made later. The message is
// not at fault.
type Outage struct {
	Kind   state.OutageKind
	Until  time.Time // when it ends; zero if unknown
	Reason string
}

// Phrases by which well-known programs and providers report that an account's usage is exhausted.
// Limits of another kind are excluded: those of a context, of an answer, of a turn.
var (
	limitPattern = lazy.NewRegexp(`(?i)` +
		`\b(hit|reached|exceeded|exhausted)\b[^.\n]{0,60}\b(usage|rate|request|requests|session|weekly|daily|monthly|hourly|[0-9]+-hour|quota|capacity|spend|spending|credit|opus|sonnet|plan|account|current|your) ?(limits?|quota|capacity)\b` +
		`|\b(hit|reached) your( [\w-]+){0,3} limit\b` +
		`|\b(usage|rate|session|weekly|daily|monthly|hourly|[0-9]+-hour|request|requests|opus|sonnet|fable|spend|spending)[ _-]limits? (is |was |has been )?(reached|exceeded|hit|exhausted)\b` +
		`|\blimit reached\b[^\n]{0,20}\bresets?\b` +
		`|\brate[ _-]?limited\b|\brate_limit_(error|exceeded)\b|\busage_limit_(reached|exceeded)\b|\brate ?limit(ed| error| reached| exceeded)\b` +
		`|\btoo many requests\b|\bresource[ _]?(has been )?exhausted\b|\bquota (has been |is |was )?(exceeded|exhausted|reached)\b` +
		`|\bout of (extra )?usage\b|\bexceeds? your (account|organi[sz]ation)('s)? rate limit\b`)
	otherLimitPattern = lazy.NewRegexp(`(?i)\b(context|window|output tokens?|max_tokens|maximum tokens|too long|turn limit|max[_ -]turns|max(imum)? number of turns|file size|memory limit|time limit|recursion)\b`)

	// overloadPattern match a provider that is reachable but cannot answer now.
	overloadPattern = lazy.NewRegexp(`(?i)\boverloaded(_error)?\b|\bservice (is )?(temporarily )?unavailable\b|\btemporarily unavailable\b|\b(at|over) capacity\b|\b(experiencing|currently under|due to) (very )?high (demand|load)\b` +
		`|\bbad gateway\b|\bgateway time-?out\b|\bserver had an error\b|\binternal server error\b|\bserver_?error\b`)

	// unreachablePattern match a network failure.
	unreachablePattern = lazy.NewRegexp(`(?i)\bE(CONNREFUSED|CONNRESET|NOTFOUND|AI_AGAIN|TIMEDOUT|HOSTUNREACH|NETUNREACH|PIPE)\b|\bconnection (error|refused|reset|timed out|closed)\b|\bfetch failed\b|\bsocket hang up\b|\bunable to connect to (the )?api\b` +
		`|\bstream disconnected before completion\b|\berror sending request\b|\bcould not resolve host\b|\bno such host\b|\bnetwork (error|is unreachable)\b|\bdns error\b`)

	statusPattern = lazy.NewRegexp(`(?i)\b(?:https?|status|status code|code|error|api error|rejected|response|returned|got|server|failed)\b[^0-9\n]{0,20}\b(429|5\d\d)\b` +
		`|\b(429|5\d\d)\b[^0-9a-z\n]{0,3}(?:too many|service|server|overloaded|bad gateway|gateway|internal|error)`)
)

// parseLimit returns the limit that text reports, or nil. reach means that the text comes from a
// program that asks a model, so that network failures count.
func parseLimit(text string, reach bool, now time.Time, zone *time.Location) *Outage {
	for line := range strings.Lines(text) {
		l := Outage{Kind: state.UsageLimit, Reason: plain.Cut(strings.TrimSpace(line), maxLastLine)}
		switch status := parseStatus(line); {
		case otherLimitPattern.Get().MatchString(line):
			continue
		case status == http.StatusTooManyRequests || limitPattern.Get().MatchString(line):
		case status >= http.StatusInternalServerError || overloadPattern.Get().MatchString(line) || reach && unreachablePattern.Get().MatchString(line):
			l.Kind = state.Overload
		default:
			continue
		}
		l.Until = parseLimitEnd(text, now, zone)
		return &l
	}
	return nil
}

// parseStatus returns the HTTP status that a line reports if it is 429 or a server error,
// otherwise 0.
func parseStatus(line string) int {
	m := statusPattern.Get().FindStringSubmatch(line)
	if m == nil {
		return 0
	}
	status, _ := strconv.Atoi(cmp.Or(m[1], m[2]))
	return status
}

// reachedLimit returns why a failed attempt can succeed later, or nil. A limit from the runner's
// stream takes precedence over the words of its last error.
func (s *supervisor) reachedLimit(res *Result) *Outage {
	kind, now := s.output.agent, time.Now()
	if l := s.output.limit; l != nil {
		limit := *l
		limit.Reason = cmp.Or(limit.Reason, lastLine(res.Reason))
		if limit.Until.IsZero() {
			limit.Until = parseLimitEnd(res.Reason, now, s.config.zone())
		}
		return &limit
	}
	if !kind.anyLimit {
		return nil
	}
	text := res.Reason
	switch {
	case res.Status == TimedOut: // it kept retrying
		text = lastLine(s.output.faults.String())
		if !res.Worked && res.Text == "" && kind.parse != nil {
			text += "\n" + res.Stderr // gemini reports its errors only there
		}
	case s.ending == nil && res.ExitCode < 0 && s.process != nil && !s.process.isRunning(): // killed from outside
		return nil
	}
	if kind.parse == nil && res.ExitCode != 0 {
		text += "\n" + lastLine(res.Stderr) + "\n" + lastLine(res.Text)
	}
	if l := parseLimit(text, kind.parse != nil, now, s.config.zone()); l != nil {
		return l
	}
	if kind.parse == nil && res.ExitCode == TryLater {
		return &Outage{Kind: state.Overload, Until: parseLimitEnd(text, now, s.config.zone()), Reason: res.Reason}
	}
	return nil
}

// zone returns the time zone in which the agent's program writes times: the TZ of the agent's
// environment or, without it, the machine's zone. Our own TZ does not matter.
func (c Config) zone() *time.Location {
	if zone, err := time.LoadLocation(c.Env["TZ"]); err == nil && c.Env["TZ"] != "" {
		return zone
	}
	if os.Getenv("TZ") == "" {
		return time.Local
	}
	if data, err := os.ReadFile(localtime); err == nil {
		if zone, err := time.LoadLocationFromTZData("Local", data); err == nil {
			return zone
		}
	}
	return time.UTC
}

// localtime is the file of the machine's time zone.
const localtime = "/etc/localtime"

// Patterns for the end of a limit.
var (
	epochTime = lazy.NewRegexp(`(?:\||\bresets?(?:_at|At)?\b"?\s*[:=]?\s*"?)(\d{10})(\d{3})?\b`)
	fullTime  = lazy.NewRegexp(`\b(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2})?)(?:\.\d+)?\s*(Z|UTC|GMT|[+-]\d{2}:?\d{2})?`)
	dayTime   = lazy.NewRegexp(`(?i)\b(?:at|resets?|until|on|after)\s+(?:on\s+)?` +
		`(?:(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?(?:,?\s+(\d{4}))?,?\s+(?:at\s+)?|(mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+(?:at\s+)?)?(?:at\s+)?` +
		`(\d{1,2})(?::(\d{2}))?(?::\d{2})?\s*(am|pm|a\.m\.|p\.m\.)?(?:\s*\(?\b([A-Z][A-Za-z]+/[A-Za-z_/+-]+|UTC|GMT)\b\)?)?`)
	waitTime = lazy.NewRegexp(`(?i)\b(?:in|after|within|wait|for|retry-after:?|retrydelay"?:?)\s+"?((?:\d+(?:\.\d+)?\s*(?:days?|d|hours?|hrs?|hr|h|minutes?|mins?|min|milliseconds?|ms|m|seconds?|secs?|sec|s)\b?[\s,]*(?:and\s+)?)+)`)
	waitUnit = lazy.NewRegexp(`(?i)(\d+(?:\.\d+)?)\s*(days?|d|hours?|hrs?|hr|h|minutes?|mins?|min|milliseconds?|ms|m|seconds?|secs?|sec|s)`)
	waitOnly = lazy.NewRegexp(`(?i)\bretry-after:?\s*"?(\d{1,7})\b`)
)

// Bounds of the hours and minutes of a day.
const (
	lastHour   = 23
	lastMinute = 59
	noon       = 12
)

// justPassed is the age up to which a time of day means today and not tomorrow. The provider's
// clock may be ahead, and the attempt took a while.
const justPassed = 10 * time.Minute

// parseLimitEnd returns the time that text names as the end of a limit. It returns the zero time if
// text names no time or a past one. A time without a zone is in zone.
func parseLimitEnd(text string, now time.Time, zone *time.Location) time.Time {
	var at time.Time
	if m := epochTime.Get().FindStringSubmatch(text); m != nil {
		seconds, _ := strconv.ParseInt(m[1], 10, 64)
		at = time.Unix(seconds, 0)
	} else if m := fullTime.Get().FindStringSubmatch(text); m != nil {
		at = parseFullTime(m, zone)
	} else if m := waitTime.Get().FindStringSubmatch(text); m != nil {
		at = now.Add(parseWait(m[1]))
	} else if m := waitOnly.Get().FindStringSubmatch(text); m != nil {
		at = now.Add(parseWait(m[1] + "s"))
	} else {
		for _, m := range dayTime.Get().FindAllStringSubmatch(text, -1) {
			if at = parseDayTime(m, now, zone); !at.IsZero() {
				break
			}
		}
	}
	if !at.After(now) {
		return time.Time{}
	}
	return at
}

// LimitEnd returns the future time that a provider's error names as the end of a limit, or the
// zero time. A time without a zone is in UTC.
func LimitEnd(text string, now time.Time) time.Time { return parseLimitEnd(text, now, time.UTC) }

// parseFullTime converts a match of fullTime.
func parseFullTime(m []string, zone *time.Location) time.Time {
	clock := m[2]
	if len(clock) == len("15:04") {
		clock += ":00"
	}
	switch offset := strings.ReplaceAll(m[3], ":", ""); offset {
	case "":
	case "Z", "UTC", "GMT":
		zone = time.UTC
	default:
		at, _ := time.Parse("2006-01-02 15:04:05-0700", m[1]+" "+clock+offset)
		return at
	}
	at, _ := time.ParseInLocation("2006-01-02 15:04:05", m[1]+" "+clock, zone)
	return at
}

// parseWait adds up "2 days 3 hours" or "1m30s".
func parseWait(text string) (wait time.Duration) {
	for _, m := range waitUnit.Get().FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseFloat(m[1], 64)
		unit := time.Second
		switch word := strings.ToLower(m[2]); {
		case word == "ms" || strings.HasPrefix(word, "milli"):
			unit = time.Millisecond
		case word[0] == 'd':
			unit = 24 * time.Hour
		case word[0] == 'h':
			unit = time.Hour
		case word[0] == 'm':
			unit = time.Minute
		}
		wait += time.Duration(min(n, maxWaitUnits) * float64(unit))
	}
	return wait
}

// maxWaitUnits bounds a number in a duration, so that the sum does not overflow.
const maxWaitUnits = 10_000

// parseDayTime converts a match of dayTime. It returns the zero time for an impossible time of day.
func parseDayTime(m []string, now time.Time, zone *time.Location) time.Time {
	month, day, year, weekday, half := m[1], m[2], m[3], m[4], strings.ToLower(m[7])
	hour, _ := strconv.Atoi(m[5])
	minute, _ := strconv.Atoi(m[6])
	switch {
	case half == "" && m[6] == "", hour > lastHour, minute > lastMinute, half != "" && (hour < 1 || hour > noon):
		return time.Time{}
	case half == "":
	case half[0] == 'p' && hour < noon:
		hour += 12
	case half[0] == 'a' && hour == noon:
		hour = 0
	}
	if named, err := time.LoadLocation(m[8]); err == nil && m[8] != "" {
		zone = named
	}
	now = now.In(zone)
	at := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, zone)
	switch {
	case month != "":
		named, _ := time.Parse("Jan", strings.ToUpper(month[:1])+strings.ToLower(month[1:3]))
		d, _ := strconv.Atoi(day)
		y, _ := strconv.Atoi(cmp.Or(year, strconv.Itoa(now.Year())))
		at = time.Date(y, named.Month(), d, hour, minute, 0, 0, zone)
		if year == "" && at.Before(now.AddDate(0, -6, 0)) {
			at = at.AddDate(1, 0, 0)
		}
	case weekday != "":
		for range 7 {
			if strings.EqualFold(at.Weekday().String()[:3], weekday) && at.After(now) {
				break
			}
			at = time.Date(at.Year(), at.Month(), at.Day()+1, hour, minute, 0, 0, zone)
		}
	case at.Before(now.Add(-justPassed)):
		at = time.Date(now.Year(), now.Month(), now.Day()+1, hour, minute, 0, 0, zone)
	}
	return at
}
