import { flag } from '../../wires/core/members.ts';

/** llama.cpp's member of that name. */
export const postSamplingProbs = flag
  .nullish()
  .describe(
    'Tell probabilities of the distribution that tokens are drawn from, after penalties, cuts, temperature and grammar, ' +
      "instead of the model's own logarithms. Tokens that cannot be drawn are left out. Default false.",
  );
