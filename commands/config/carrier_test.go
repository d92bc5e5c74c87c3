package config_test

import (
	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/mesh/natsmesh"
)

// The two meshes.
var (
	_ cycle.Carrier = (*mesh.Client)(nil)
	_ cycle.Carrier = (*natsmesh.Client)(nil)
)
