// Package react is the agent loop in the box: think, act, observe, persist,
// within a budget (docs/decisions/0010). It runs in a process of its own, which
// package turn starts like any other agent.
package react
