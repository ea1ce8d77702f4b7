// Dims of one step of the scheduler, written by the host for each step.
struct Step {
  tokens: u32,   // rows of the hidden state
  samples: u32,  // rows whose logits are needed
  tiles: u32,    // tiles of one token whose context is split
  decode_rows: u32, // rows of decoding sequences and of drafts; they come before the rows of prompts
}

// token: x id (FEEDBACK: the token last sampled for the slot), y position, z slot, w SINGLE if it has a tile of its own
// tile:  x first token, y tokens, z slot, w position of the first token
const FEEDBACK = 0xffffffffu;
const SINGLE = 1u;
