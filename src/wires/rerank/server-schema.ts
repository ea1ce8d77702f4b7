import { z } from 'zod';
import { list } from '../../http/schema/list.ts';
import {
  flag,
  foreignMember,
  isOneOf,
  name,
  optionalInteger,
  refusedMember,
  requestBodySchema,
  text,
} from '../core/members.ts';

/** Most documents of a request. */
export const maxDocuments = 1000;

const documentError = 'expected a text, or an object whose `text` is one';
const document = z.union([text, z.looseObject({ text }, { error: documentError })], { error: documentError });

const isTextOnly = (value: unknown): boolean =>
  Array.isArray(value) && value.length === 1 && value[0] === 'text';

export const rerankRequest = requestBodySchema('RerankRequest', {
  model: text.nullish().describe('The id of the resident model, from GET /v1/models. Default: that model.'),
  query: name.describe('Special tokens in it are text.'),
  documents: list(document, {
    error: 'expected an array of documents',
    empty: 'must hold at least one document',
    max: {
      count: maxDocuments,
      error: (count) => `at most ${maxDocuments} documents, got ${count}; send them in several requests`,
    },
  }).describe('Texts, or objects whose `text` is one. Special tokens in them are text.'),
  top_n: optionalInteger(1).describe('Number of results, the best ones. Default: all.'),
  top_k: foreignMember('top_n'),
  return_documents: flag.nullish().describe('Include the documents in the results. Default `false`.'),
  max_tokens_per_doc: optionalInteger(1).describe(
    'Documents are truncated to this many tokens. Default: 4096 on /v2/rerank; none elsewhere.',
  ),
  truncate: flag
    .nullish()
    .describe(
      "Truncate documents that do not fit the model's context beside the query, in place of refusing them. Default: `true` " +
        'on /v2/rerank and with `max_tokens_per_doc`; `false` elsewhere.',
    ),
  raw_scores: flag
    .nullish()
    .describe("Scores are the model's logits, as llama.cpp gives them. Default: their sigmoid, 0 to 1."),
  max_chunks_per_doc: refusedMember(
    'documents are not cut into chunks; use `max_tokens_per_doc`, or leave it out',
    isOneOf(1),
  ),
  rank_fields: refusedMember('documents have the field `text` alone', isTextOnly),
  instruction: refusedMember('the instruction of the model is fixed; put yours into the query'),
});
export type RerankRequest = z.infer<typeof rerankRequest>;

export const rerankAnswer = z
  .object({
    id: z.string(),
    object: z.literal('list'),
    model: z.string(),
    results: z
      .array(
        z.object({
          index: z.int().describe('Index of the document in the request.'),
          relevance_score: z.number().describe('0 to 1; the logit with `raw_scores`.'),
          document: z
            .looseObject({ text: z.string() })
            .optional()
            .describe('With `return_documents`: the object of the request, or one with its text.'),
        }),
      )
      .describe('In descending order of the score.'),
    usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
    meta: z.object({
      api_version: z.object({ version: z.enum(['1', '2']) }),
      tokens: z.object({ input_tokens: z.int(), output_tokens: z.literal(0) }),
      warnings: z.array(z.string()).optional().describe('Which documents were truncated.'),
    }),
  })
  .meta({ id: 'RerankAnswer' });
export type RerankAnswer = z.infer<typeof rerankAnswer>;
