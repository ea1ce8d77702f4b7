import { isRecord } from '../../util/json.ts';
import { unsupported } from '../core/error.ts';
import { google } from '../google/index.ts';
import { writeBody, computeCharge, createFailure, parseAnswer } from './answer.ts';
import type { EmbeddingsTranslation } from './types.ts';
import { isVector, toBase64 } from './vectors.ts';

/** `batchEmbedContents` of Google's Gemini API, with one request per input. */
export const googleEmbeddings: EmbeddingsTranslation = {
  request({ facts }, model) {
    const texts = facts.inputs.map((input) => {
      if (typeof input === 'string') return input;
      throw unsupported('input', `${model.id} embeds texts, not tokens; send the texts themselves as input.`);
    });
    const modelName = `models/${model.upstream}`;
    const requests = texts.map((text) => ({
      model: modelName,
      content: { parts: [{ text }] },
      ...(facts.dimensions === undefined ? {} : { outputDimensionality: facts.dimensions }),
    }));
    return {
      path: `/models/${encodeURIComponent(model.upstream)}:batchEmbedContents`,
      headers: {},
      text: JSON.stringify({ requests }),
    };
  },
  answer(text, request, model) {
    const { embeddings, usageMetadata } = parseAnswer(text);
    const items: unknown[] = Array.isArray(embeddings) ? embeddings : [];
    const { inputs, encoding } = request.facts;
    if (items.length !== inputs.length)
      throw createFailure(`${items.length} embeddings for ${inputs.length} inputs`);
    const vectors = items.map((item) => {
      const values = isRecord(item) ? item['values'] : undefined;
      if (!isVector(values)) throw createFailure('an embedding that is not a vector');
      return encoding === 'base64' ? toBase64(values) : values;
    });
    const charge = computeCharge(
      isRecord(usageMetadata) ? usageMetadata['promptTokenCount'] : undefined,
      request,
    );
    return { text: JSON.stringify(writeBody(vectors, model, charge.usage)), ...charge };
  },
  failure: google.failure,
};
