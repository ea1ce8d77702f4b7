import { z } from 'zod';
import { isRecord } from '../../util/json.ts';
import { list } from '../../http/schema/list.ts';
import { flag, foreignMember, isOneOf, name, optionalInteger, refusedMember, text } from '../core/members.ts';

/** Most documents of a request. */
export const maxDocuments = 1000;

const documentsError = 'expected an array of documents';
const documentError = 'expected a text, or an object whose `text` is one';
const document = z.union([text, z.looseObject({ text }, { error: documentError })], { error: documentError });

const isTextOnly = (value: unknown): boolean =>
  Array.isArray(value) && value.length === 1 && value[0] === 'text';

const documentList = <Element extends z.ZodType>(element: Element) =>
  list(element, {
    error: documentsError,
    empty: 'must hold at least one document',
    max: {
      count: maxDocuments,
      error: (count) => `at most ${maxDocuments} documents, got ${count}; send them in several requests`,
    },
  });

const members = z.object(
  {
    model: text.nullish().describe('The id of the resident model, from GET /v1/models. Default: that model.'),
    query: name.describe('Special tokens in it are text.'),
    documents: documentList(document)
      .nullish()
      .describe('Texts, or objects whose `text` is one. Special tokens in them are text.'),
    texts: documentList(text)
      .nullish()
      .describe(
        'The documents, as Text Embeddings Inference has them: the answer is then an array of its results. `documents` takes precedence.',
      ),
    top_n: optionalInteger(1).describe('Number of results, the best ones. Default: all.'),
    top_k: foreignMember('top_n'),
    return_documents: flag.nullish().describe('Include the documents in the results. Default `false`.'),
    return_text: flag.nullish().describe('With `texts`: include them in the results. Default `false`.'),
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
  },
  { error: 'expected a JSON object' },
);
export const rerankRequest = members
  .refine(({ documents, texts }) => (documents ?? texts ?? undefined) !== undefined, {
    path: ['documents'],
    error: documentsError,
    // Reported beside the violations of other members.
    when: ({ value }) => isRecord(value),
  })
  .meta({ id: 'RerankRequest' });
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

/** The answer of Text Embeddings Inference. */
export const rankedTexts = z
  .array(
    z.object({
      index: z.int().describe('Index of the text in the request.'),
      score: z.number().describe('0 to 1; the logit with `raw_scores`.'),
      text: z.string().optional().describe('With `return_text`.'),
    }),
  )
  .meta({ id: 'RankedTexts', description: 'In descending order of the score.' });
export type RankedTexts = z.infer<typeof rankedTexts>;

/** The body of an answer, which depends on the form of the request. */
export const rerankResult = z.union([rerankAnswer, rankedTexts]).meta({ id: 'RerankResult' });
