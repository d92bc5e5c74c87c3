package simulator

// selfTurns is how many turns in a row the agent may cause itself.
const selfTurns = 4
