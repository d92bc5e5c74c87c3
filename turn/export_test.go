package turn

// runACP runs ACPCommand in a test binary. Package turn/acp, which imports this one, does
// that.
var runACP func(args []string) int

// SetACP sets runACP.
func SetACP(run func(args []string) int) bool {
	runACP = run
	return true
}
