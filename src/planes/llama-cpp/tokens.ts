import { z } from 'zod';
import type { Tokenizer } from '../../engine/index.ts';
import { invalidBodyError } from '../../http/violations.ts';
import { unavailableResponses } from './error-responses.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { flag, requestBodySchema, text, tokenIdList } from '../../wires/core/members.ts';

/** Limits of one request; encoding and decoding block the event loop. */
const limits = { characters: 1_000_000, tokens: 1_000_000 };

const tokenizeRequest = requestBodySchema('LlamaCppTokenizeRequest', {
  content: text.max(limits.characters, `at most ${limits.characters} characters; send it in parts`),
  add_special: flag.nullish().describe("Add the model's special tokens, such as BOS. Default false."),
  parse_special: flag.nullish().describe('Parse special tokens in the text. Default true.'),
  with_pieces: flag.nullish().describe('Return the text of each token. Default false.'),
});

const tokenized = z
  .object({
    tokens: z.union([
      z.array(z.int()),
      z.array(
        z.object({
          id: z.int(),
          piece: z
            .union([z.string(), z.array(z.int())])
            .describe('Bytes, where the token is not whole characters.'),
        }),
      ),
    ]),
  })
  .meta({ id: 'LlamaCppTokens' });

const detokenizeRequest = requestBodySchema('LlamaCppDetokenizeRequest', {
  tokens: tokenIdList({
    error: 'expected an array of token ids',
    max: { count: limits.tokens, error: `at most ${limits.tokens} tokens` },
  }),
});

const detokenized = z.object({ content: z.string() }).meta({ id: 'LlamaCppText' });

export function tokenRoutes(resident: Resident) {
  const tokenize = defineRoute({
    method: 'POST',
    path: '/tokenize',
    operationId: 'llamaCppTokenize',
    summary: 'Tokenize a text',
    body: tokenizeRequest,
    acceptsLooseContentType: true,
    responses: {
      200: { description: 'Token ids.', content: { 'application/json': tokenized } },
      ...unavailableResponses,
    },
    handle({ body }) {
      const { tokenizer } = resident.requireModel().engine;
      const ids = tokenizer.encode(body.content, {
        addSpecial: body.add_special ?? false,
        parseSpecial: body.parse_special ?? true,
      });
      const tokens = body.with_pieces ? ids.map((id) => ({ id, piece: toPiece(tokenizer, id) })) : ids;
      return Response.json({ tokens } satisfies z.infer<typeof tokenized>);
    },
  });

  const detokenize = defineRoute({
    method: 'POST',
    path: '/detokenize',
    operationId: 'llamaCppDetokenize',
    summary: 'Detokenize token ids',
    body: detokenizeRequest,
    acceptsLooseContentType: true,
    responses: {
      200: { description: 'A text, with its special tokens.', content: { 'application/json': detokenized } },
      ...unavailableResponses,
    },
    handle({ body }) {
      const { tokenizer } = resident.requireModel().engine;
      const unknownIndex = body.tokens.findIndex((id) => id >= tokenizer.vocabSize);
      if (unknownIndex !== -1) {
        const message = `no such token (the model has ids 0 to ${tokenizer.vocabSize - 1})`;
        throw invalidBodyError([{ path: `tokens.${unknownIndex}`, message }]);
      }
      const content = tokenizer.decode(body.tokens, { special: true });
      return Response.json({ content } satisfies z.infer<typeof detokenized>);
    },
  });
  return [tokenize, detokenize];
}

function toPiece(tokenizer: Tokenizer, id: number): string | number[] {
  if (tokenizer.isControl(id)) return tokenizer.tokenText(id);
  const bytes = tokenizer.tokenBytes(id);
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return [...bytes];
  }
}
