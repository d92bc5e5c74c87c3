package config_test

import (
	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/mesh/natsmesh"
)

// Both clients are carriers.
var (
	_ cycle.Carrier = (*mesh.Client)(nil)
	_ cycle.Carrier = (*natsmesh.Client)(nil)
)
