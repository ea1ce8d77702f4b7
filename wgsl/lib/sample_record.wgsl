// How one row of logits is sampled; SAMPLE_WORDS words a record, written by the host each step.
const SAMPLE_WORDS = 12u;
const HAS_BIAS = 1u;
const HAS_PENALTIES = 2u;
const HAS_MASK = 4u;
const HAS_LOGPROBS = 8u;
const IS_SCORED = 16u;         // the next token is known: `seed` holds it, and nothing is to be drawn
const IS_AFTER_SAMPLING = 32u; // log probabilities are those of what the token is drawn from
const LIKELIEST_SHIFT = 8u;    // above it: how many of the likeliest tokens are asked for

struct Sample {
  row: u32,       // of the hidden state
  slot: u32,      // of the sequence
  flags: u32,
  seed: u32,
  position: u32,  // of the token to be drawn
  top_k: u32,     // 0: all
  temperature: f32,
  top_p: f32,
  min_p: f32,
  repetition: f32,
  presence: f32,
  frequency: f32,
}
