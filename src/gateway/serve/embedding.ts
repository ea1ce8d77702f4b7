import type { Candidate } from '../catalog/types.ts';
import { unsupported } from '../../wires/core/error.ts';
import { readEmbeddingsFacts, embeddingsTranslationOf } from '../../wires/embeddings/index.ts';
import type { IncomingRequest } from './incoming-request.ts';
import { openaiErrorBody } from './answers.ts';
import { OutgoingResponse } from '../../http/deliver.ts';
import { answerBuffered } from './buffered-answer.ts';
import { admitRequest } from './admission.ts';
import type { GatewayServices } from './services.ts';
import { contextWindowCheck } from './context-window.ts';

/** Answers a request for embeddings. @throws WireError @throws ClientGone */
export async function answerEmbeddings(
  services: GatewayServices,
  incoming: IncomingRequest,
): Promise<OutgoingResponse> {
  const admitted = await admitRequest(services, incoming, {
    wire: 'embeddings',
    facts: ({ value }) => readEmbeddingsFacts(value),
    candidateCheck(facts) {
      const checkContextWindow = contextWindowCheck(facts, { input: facts.inputs });
      return (candidate) => {
        checkModel(candidate);
        checkContextWindow(candidate.model);
      };
    },
    maxTokensOf: () => 0,
    isCacheable: () => true,
  });
  if (admitted instanceof OutgoingResponse) return admitted;
  const { parsed, hold, cacheSlot, abortSignal, detachClient, finish, finished } = admitted;
  const { facts, text } = parsed;
  const request = { text, facts };
  for (const input of facts.inputs)
    incoming.span?.addTranscriptEntry('user', () =>
      typeof input === 'string' ? input : JSON.stringify(input),
    );
  const translationFor = ({ model }: Candidate) => embeddingsTranslationOf(model.provider.wire);
  return await answerBuffered(
    {
      services,
      incoming,
      facts,
      hold,
      cacheSlot,
      checkAnswer: undefined,
      tallies: new Map(),
      bodyFor: (candidate) => translationFor(candidate).request(request, candidate.model),
      failure: (candidate) => translationFor(candidate).failure,
      errorBody: openaiErrorBody,
      abortSignal,
      detachClient,
      finish,
      finished,
    },
    async (reply, candidate) => {
      const answer = translationFor(candidate).answer(await reply.text(), request, candidate.model);
      if (incoming.span && answer.isReported) incoming.span.attributes.promptTokens = answer.usage.fresh;
      return { ...answer, isCacheable: true };
    },
  );
}

function checkModel({ model }: Candidate): void {
  if (!model.caps.has('embeddings'))
    throw unsupported('model', `${model.id} has no capability 'embeddings', which this route needs.`);
}
