package simulator

import (
	"encoding/json"
	"fmt"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
)

// wanted is what every question of the agent asks for.
var wanted = mesh.ResultFields{{Name: "marker", Type: "string", Description: "the marker of the question", Required: true}, {Name: "number", Type: "integer"}}

// results are the fields that the agent submits for a message with this marker.
func results(marker string) []cycle.Field {
	return []cycle.Field{{Name: "marker", Text: marker}, {Name: "number", Value: json.RawMessage(fmt.Sprint(len(marker)))}}
}
