package fleet_test

import (
	"errors"
	"strings"
	"testing"

	"agentstateloop/fleet"
	"agentstateloop/fleet/fleettest"
)

// TestNobodyAnswers checks the error of a request that no part of the engine serves, which
// says what may be missing.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	conn := fleettest.Start(t, "alice").Conn("")
	_, err := conn.Request(t.Context(), "nothing", nil, nil)
	if e, ok := errors.AsType[*fleet.Error](err); !ok || e.Code != 503 || !strings.Contains(err.Error(), "agentstateloop fleet create") {
		t.Errorf("%v", err)
	}
}
