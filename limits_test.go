package main_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// notLimits are constants with a number that limits nothing, each with the reason.
var notLimits = map[string]string{
	// state, state/store, cycle, internal
	"state.Dollar":          "the unit in which amounts are written",
	"state.Version":         "the format of state.json",
	"state.VersionHeld":     "the format of state.json",
	"state.DefaultPatience": "a default that turn/react and commands name in their tools and flags",

	"state/store.sumLen":        "the form of a sum",
	"state/store.snapshotTries": "TestSnapshotAmongCommits has as many commits",
	"cycle/archive.Format":      "the format of an archive: TestRefusals has the next one",
	"cycle/archive.maxStanza":   "how much is searched for a word that comes first",
	"cycle.moveCheck":           "how often is looked",
	"state/store.secretLength":  "the form of a key",
	"state/store.tailChunk":     "how much is read at a time, which changes no result",

	"state.obstaclePause": "a pause below a minute: the story backends-fallback has its edge",

	"turn/react.maxRetrySeconds":  "a bound against overflow, far beyond any limit",
	"turn/react.maxUnix":          "as maxRetrySeconds",
	"turn/react.maxUnread":        "how much of a fault is told",
	"turn/react.maxBytesPerToken": "an estimate",
	"turn/react.ollamaDefault":    "a default of Ollama's",

	"cycle/replay.assumedTime": "an assumption, which the output names",
	"cycle/replay.assumedCost": "as assumedTime",
	"commands.defaultReplay":   "a default: the story replay begins 30 days before the last mail",

	"cycle.minRecall": "where a search ends, whose result may have any length",

	"turn.TryLater":   "a code of sysexits(3)",
	"turn.lastHour":   "the form of a time",
	"turn.lastMinute": "the form of a time",
	"turn.noon":       "the form of a time",

	"cycle.MaxFallbacks": "TestWrongFallbacks of commands/config has five",

	"cycle/view.FollowEvery": "how often is looked",
	"cycle.checkEvery":       "how often is looked",
	"cycle/view.EventsRead":  "how much of the history is read: store.Newest is tried at its edge, with a short history",
	"cycle.meanwhileRead":    "as eventsRead",
	"cycle/view.numbersRead": "as eventsRead",
	"cycle.overSearched":     "as eventsRead",
	"cycle.recallScan":       "as eventsRead",
	"cycle.recallPer":        "a factor: how much is read for so much room",
	"cycle.recallRead":       "a factor: how much is read for so much room",
	"cycle.recallTimes":      "a factor: how much is read for so much room",
	"cycle/view.wholeSerial": "a mark: the place behind all lines of a serial",
	"cycle/view.pastRead":    "as eventsRead",
	"cycle/view.dayHours":    "a unit",
	"cycle/view.weekDays":    "a unit",
	"cycle.weekAgo":          "a unit",

	"commands/page.contextLines": "as eventsRead",
	"commands/page.searchLines":  "how much of the history one search reads: TestHistory continues it",
	"commands/page.wholeSerial":  "as cycle/view.wholeSerial",
	"commands/page.costDays":     "how many days a page shows",

	"commands.maxSentences": "the form of the output: the story explain has its edge",
	"commands.tableRows":    "rows that are aligned together, which changes no result",

	"cycle/listen.scanEvery":    "how often is looked",
	"cycle/prompt.maxReference": "a bound of work: a reference of HTML has 32 bytes at most, so that longer names mean nothing",
	"cycle/prompt.tagsSize":     "an estimate, which is part of each exchange's size",
	"cycle/prompt.rankB":        "a parameter of BM25",
	"cycle/prompt.rankK1":       "a parameter of BM25",

	"internal/capture.signalDelay":  "a wait for a signal that is under way to this process, after which the result is the same",
	"internal/memory.checkInterval": "how often is looked",

	// mail, mesh, fleet
	"fleet/seat.WarnHead":          "when doctor warns: its own test has the edge",
	"fleet/seat.blockSize":         "when lines become a block, which changes no result",
	"fleet/seat.blocksAtOnce":      "how much is asked for at a time, which changes no result",
	"fleet/seat.gzipAbove":         "when a head is compressed, which changes no result",
	"fleet/seat.maxPlain":          "a bound against a head that grows when it is read: our own are far below",
	"fleet/seat.maxRebases":        "as state/store.rebases",
	"fleet/seat.retryAfter":        "a pause within the limit fleet/seat.within",
	"fleet/seat.uploadWithin":      "a bound of work: the next poll uploads the rest",
	"internal/boot.clock":          "the number of a clock of the system",
	"state/store.fleetPatience":    "how long is waited for servers, as state/store.commitPatience",
	"state/store.rebases":          "offers of the same host that come late: one is possible at a time",
	"cycle.maxTurnFiles":           "a bound of work, which TestManyFilesOfATurn has",
	"cycle.fenceEvery":             "how often is looked",
	"fleet.blocksAhead":            "how much is asked for at a time, which changes no result",
	"fleet.putAtOnce":              "how much is on the way at a time, which changes no result",
	"fleet/seat.ofServers":         "a mark, the oldest time",
	"fleet/seat.renewAfter":        "a third of the time after which the servers remove a file",
	"fleet/seat.renewAtOnce":       "how much is done at a time: the next poll goes on",
	"fleet.chunksAhead":            "how much is asked for at a time, which changes no result",
	"fleet.cluster":                "the number of an error of nats-server",
	"fleet.day":                    "a unit",
	"fleet.defaultPort":            "a port",
	"fleet.duplicateInProcess":     "the number of an error of nats-server",
	"fleet.gib":                    "a unit",
	"fleet.long":                   "the form of the subject of an acknowledgement",
	"fleet.numberNoConsumer":       "the number of an error of nats-server",
	"fleet.numberNoStream":         "the number of an error of nats-server",
	"fleet.numberStoreFailed":      "the number of an error of nats-server",
	"fleet.numberWrongLast":        "the number of an error of nats-server",
	"fleet.numberWrongLastBusy":    "the number of an error of nats-server",
	"fleet.oneServer":              "the number of an error of nats-server",
	"fleet.pageBytes":              "how much is asked for at a time, which changes no result",
	"fleet.pageRows":               "how much is asked for at a time, which changes no result",
	"fleet.routePort":              "a port",
	"fleet.short":                  "the form of the subject of an acknowledgement",
	"fleet.temporarilyUnavailable": "the number of an error of nats-server",
	"mail.bodyGroup":               "how much is asked for at a time, which changes no result",
	"mail.headerChunk":             "how much is asked for at a time, which changes no result",
	"mail.maxQuestions":            "how much is asked for at a time, which changes no result",
	"mail.parenthesis":             "a factor, of what a byte counts for",
	"mail.searchAbove":             "when the server is asked to search, which changes no result",
	"mail/trust.tokenLength":       "the form of a token",
	"mail.uidLength":               "the form of a UID in an answer",
	"mail/message.chunkLines":      "how much is encoded at a time, which changes no result",
	"mail/message.macLetters":      "the form of a Message-ID",
	"mail/message.partOfMAC":       "the form of a Message-ID",
	"mesh.journalVersion":          "the format of mesh.log",
	"mesh.secretLength":            "the form of a secret",
	"mesh.answerWritten":           "a mark: the code of an answer that is written already",
	"mesh/natsmesh.maxRows":        "an argument of fleet.Conn.Rows, which TestRows tries: no test fills a registry with so many",

	// turn, commands, cron
	"commands.allIndent":              "a column, at which a wrapped line goes on",
	"commands.contract":               "a version, of docs/json.md",
	"commands.exitBusy":               "an exit code",
	"commands.exitDone":               "an exit code",
	"commands.exitError":              "an exit code",
	"commands.exitFailed":             "an exit code",
	"commands.exitRefused":            "an exit code",
	"commands.exitSource":             "an exit code",
	"commands.exitTimeout":            "an exit code",
	"commands.exitUsage":              "an exit code",
	"commands.fewDigits":              "the form of a commit in the line of --version",
	"commands.followEvery":            "a period, of looks for new lines",
	"commands/page.historyPage":       "how much is answered at a time: the rest follows with before",
	"commands/page.refreshEvery":      "a period, after which a document is made again",
	"commands/present.labelCells":     "a column, at which the text of a row begins",
	"commands.maxMemory":              "is for memory.Guard, which counts all that the process holds: no test fills half a GiB",
	"commands.numberNoCluster":        "the number of an error of nats-server",
	"commands.numberNoPeers":          "the number of an error of nats-server",
	"commands.numberNoStorage":        "the number of an error of nats-server",
	"commands.pollGC":                 "a setting of the garbage collector, in percent",
	"commands.pseudoCommit":           "the form of a pseudo-version",
	"commands/doctor.infoAlign":       "the format of build information",
	"commands/doctor.infoHeader":      "the format of build information",
	"commands/doctor.infoInline":      "the format of build information",
	"commands/doctor.infoMark":        "the format of build information",
	"commands/terminal.belowIndent":   "a column, at which a line of its own begins",
	"commands/terminal.fewestColumns": "a width, for which a narrower terminal is taken",
	"turn.NotLoggedIn":                "an exit code",
	"turn.geminiNotLoggedIn":          "an exit code",
	"mail/message.threadBytes":        "the form of the id of a thread",
	"turn.environTries":               "looks at a process that has no environment for an instant, while the kernel starts its program",
	"turn.kinfoGroup":                 "the format of struct kinfo_proc",
	"turn.kinfoPID":                   "the format of struct kinfo_proc",
	"turn.kinfoParent":                "the format of struct kinfo_proc",
	"turn.kinfoSize":                  "the format of struct kinfo_proc",
	"turn.kinfoStart":                 "the format of struct kinfo_proc",
	"turn.kinfoState":                 "the format of struct kinfo_proc",
	"turn.keptFD":                     "a descriptor, on which the agent has its lock",
	"turn.pollEvery":                  "a period, of looks at processes",
	"turn.statFields":                 "the format of proc_pid_stat(5)",
	"turn.zombie":                     "a state of processes on macOS and FreeBSD",
	"turn/acp.codeAuthRequired":       "the number of an error of the protocol",
	"turn/acp.codeNoMethod":           "the number of an error of the protocol",
	"turn/acp.protocolVersion":        "a version, of the protocol",
	"turn/box.atArch":                 "the format of struct seccomp_data",
	"turn/box.atArgs":                 "the format of struct seccomp_data",
	"turn/box.atNumber":               "the format of struct seccomp_data",
	"turn/box.endOfCalls":             "the number of a system call",
	"turn/box.niceInside":             "a nice value",
	"turn/box.personalityQuery":       "an argument of personality(2)",
	"turn/box.socketTypes":            "a mask, of the flags in a type of socket",
	"turn/box.sysMemfdSecret":         "the number of a system call",
	"turn/box.userInside":             "the id of a user",
	"turn/box.watchEvery":             "a period, of looks at what a box uses",
	"turn/react.bytesPerToken":        "a factor, of estimates",
	"turn/react.imageTokens":          "a factor, of estimates",
	"turn/react.pageBytes":            "a factor, of estimates",
	"turn/react.pageTokens":           "a factor, of estimates",
	"turn/react.sniffLen":             "how many bytes http.DetectContentType looks at",
}

// constant is one constant of the product whose value is a number that somebody chose.
type constant struct {
	name string // behind its package: mail.maxSize
	at   string
}

// TestEveryLimitIsTried checks that a table of internal/testkit/limittest names each constant of
// the product, or notLimits does, and that a comparison with a number has a name for it.
func TestEveryLimitIsTried(t *testing.T) {
	tried, found := map[string]int{}, map[string][]constant{}
	for _, s := range sources(t) {
		if s.test {
			for _, name := range namedInTables(s) {
				tried[s.folder+"."+name]++
			}
			continue
		}
		if isTestkit(s.folder) || s.folder == "cycle/demo" {
			continue
		}
		for _, c := range chosen(s) {
			found[c.name] = append(found[c.name], c)
		}
		for n := range ast.Preorder(s.file) {
			if number := comparedWith(n); number != "" {
				t.Errorf("%s: a comparison with %s: give the number a name", s.at(n), number)
			}
		}
	}
	for name, reason := range notLimits {
		if found[name] == nil {
			t.Errorf("notLimits: the constant %s does not exist", name)
		}
		if tried[name] > 0 || reason == "" {
			t.Errorf("notLimits: %s is tried by a table, or has no reason", name)
		}
		tried[name] = len(found[name])
	}
	for name, all := range found {
		if tried[name] < len(all) {
			t.Errorf("%s: no table of limits tries %s at its edge: add it to limits_test.go there, or to notLimits", all[0].at, name)
		}
	}
	for name := range tried {
		if found[name] == nil && !strings.HasPrefix(name, "internal/testkit/limittest.") {
			t.Errorf("a table of limits names %s, but no constant with a number has that name", name)
		}
	}
}

// chosen returns the constants of a file, those of its functions too, whose value has a
// number in it. Enumerations and file modes are left out.
func chosen(s source) []constant {
	var all []constant
	for n := range ast.Preorder(s.file) {
		decl, ok := n.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, spec := range decl.Specs {
			v := spec.(*ast.ValueSpec)
			for i, id := range v.Names {
				if i < len(v.Values) && hasNumber(v.Values[i]) {
					all = append(all, constant{s.folder + "." + id.Name, s.at(id)})
				}
			}
		}
	}
	return all
}

func hasNumber(e ast.Expr) bool {
	number := false
	for n := range ast.Preorder(e) {
		switch n := n.(type) {
		case *ast.BasicLit:
			number = number || n.Kind == token.FLOAT || n.Kind == token.INT && !strings.HasPrefix(n.Value, "0o")
		case *ast.Ident:
			if n.Name == "iota" {
				return false
			}
		}
	}
	return number
}

// comparedWith returns the number of 16 or more with which n compares, or "".
func comparedWith(n ast.Node) string {
	b, ok := n.(*ast.BinaryExpr)
	if !ok || !slices.Contains([]token.Token{token.LSS, token.GTR, token.LEQ, token.GEQ}, b.Op) {
		return ""
	}
	for _, e := range []ast.Expr{b.X, b.Y} {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.INT {
			if v, err := strconv.ParseInt(lit.Value, 0, 64); err == nil && v >= 16 && !strings.HasPrefix(lit.Value, "0x") {
				return lit.Value
			}
		}
	}
	return ""
}

// namedInTables returns the constants that the tables of a test name: the field Const of
// a limittest.Limit, and the first argument of limittest.Duration.
func namedInTables(s source) []string {
	var names []string
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if name, err := strconv.Unquote(lit.Value); err == nil {
				names = append(names, name)
			}
		}
	}
	for n := range ast.Preorder(s.file) {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Const" {
				add(n.Value)
			}
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Duration" && len(n.Args) == 4 {
				add(n.Args[0])
			}
		}
	}
	return names
}
