import type { Candidate } from '../catalog/types.ts';
import { unsupported } from '../../wires/core/error.ts';
import { embeddingsFacts, embeddingsOf } from '../../wires/embeddings/index.ts';
import type { Asked } from './asked.ts';
import { plainErrorBody } from './answers.ts';
import { Answer } from '../../http/deliver.ts';
import { buffered } from './buffered.ts';
import { open } from './enter.ts';
import type { GatewayParts } from './parts.ts';
import { checkWindow } from './window.ts';

/** Answers a request for embeddings. @throws WireError @throws ClientGone */
export async function embed(parts: GatewayParts, asked: Asked): Promise<Answer> {
  const opened = await open(parts, asked, {
    wire: 'embeddings',
    facts: ({ value }) => embeddingsFacts(value),
    check(candidate, facts) {
      checkModel(candidate);
      checkWindow(candidate.model, facts, { input: facts.inputs });
    },
    maxTokensOf: () => 0,
  });
  if (opened instanceof Answer) return opened;
  const { entered, purchase, givenUp, left, over } = opened;
  const { facts, text } = entered;
  const request = { text, facts };
  for (const input of facts.inputs)
    asked.told?.say('user', () => (typeof input === 'string' ? input : JSON.stringify(input)));
  const translation = ({ model }: Candidate) => embeddingsOf(model.provider.wire);
  return await buffered(
    {
      parts,
      asked,
      facts,
      purchase,
      bodyFor: (candidate) => translation(candidate).request(request, candidate.model),
      failure: (candidate) => translation(candidate).failure,
      errorBody: plainErrorBody,
      givenUp,
      left,
      over,
    },
    async (reply, candidate) => {
      const answer = translation(candidate).answer(await reply.text(), request, candidate.model);
      if (asked.told && answer.counted) asked.told.facts.promptTokens = answer.usage.fresh;
      return answer;
    },
  );
}

function checkModel({ model }: Candidate): void {
  if (!model.caps.has('embeddings'))
    throw unsupported('model', `${model.id} has no capability 'embeddings', which this route needs.`);
}
