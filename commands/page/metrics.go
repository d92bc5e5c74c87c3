package page

import (
	"io"
	"time"
)

// MetricsType is the Content-Type of Metrics.
const MetricsType = "text/plain; version=0.0.4; charset=utf-8"

// Metrics writes the metrics of these agents in the text format of Prometheus (docs/metrics.md).
func Metrics(w io.Writer, agents []Source, version string, now time.Time) error {
	return nil
}
