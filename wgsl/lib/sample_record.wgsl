// Sampling parameters of one row of logits: records of SAMPLE_WORDS words, written by the host for each step.
const SAMPLE_WORDS = 12u;
const HAS_BIAS = 1u;
const HAS_PENALTIES = 2u;
const HAS_MASK = 4u;
const HAS_LOGPROBS = 8u;
const IS_SCORED = 16u;         // the next token is known: it is in `seed`, and nothing is sampled
const IS_AFTER_SAMPLING = 32u; // log probabilities are those after sampling filters
const LIKELIEST_SHIFT = 8u;    // bits above it: number of requested top tokens

struct Sample {
  row: u32,       // of the hidden state
  slot: u32,      // of the sequence
  flags: u32,
  seed: u32,
  position: u32,  // of the token to sample
  top_k: u32,     // 0: all
  temperature: f32,
  top_p: f32,
  min_p: f32,
  repetition: f32,
  presence: f32,
  frequency: f32,
}
