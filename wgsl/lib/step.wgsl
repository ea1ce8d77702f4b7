// What one step of the scheduler works on; the host writes it once a step.
struct Step {
  tokens: u32,   // rows of the hidden state
  samples: u32,  // rows whose logits are wanted
  tiles: u32,    // tiles of one token
  splits: u32,   // parts of the context that attention reads apart
}

// token: x id (FEEDBACK: the one last sampled for the slot), y position, z slot, w SINGLE for a tile of its own
// tile:  x first token, y tokens, z slot, w position of the first token
const FEEDBACK = 0xffffffffu;
const SINGLE = 1u;
