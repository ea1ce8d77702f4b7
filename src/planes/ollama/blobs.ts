import type { ModelStore } from '../model-store.ts';
import { HttpError } from '../../http/error.ts';
import { defineRoute } from '../../http/route.ts';
import { ollamaError } from '../../wires/ollama/error.ts';

/** Larger than any model; free disk space is checked separately. */
const limitBytes = 2 ** 40;
const params = { digest: '`sha256:` and 64 hex digits.' };
const content = { 'application/json': ollamaError };

export function blobRoutes(store: ModelStore) {
  const has = defineRoute({
    method: 'HEAD',
    path: '/api/blobs/{digest}',
    operationId: 'ollamaHasBlob',
    summary: 'Check whether a file was uploaded',
    params,
    responses: {
      200: { description: 'The file exists.' },
      404: { description: 'The file does not exist; upload it.' },
    },
    async handle({ params: { digest = '' } }) {
      return new Response(null, { status: (await store.hasBlob(digest)) ? 200 : 404 });
    },
  });
  const put = defineRoute({
    method: 'POST',
    path: '/api/blobs/{digest}',
    operationId: 'ollamaPutBlob',
    summary: 'Upload a file to create a model from',
    description:
      'The body is the content of the file. It is kept for a day, or until a model is created from it.',
    params,
    rawBody: { limitBytes },
    responses: {
      201: { description: 'The file was stored; no body.' },
      400: { description: 'The content does not match the digest.', content },
      413: { description: 'The file is too large.', content },
      507: { description: 'The disk is full.', content },
    },
    async handle({ params: { digest = '' }, bytes, signal }) {
      await store.putBlob(digest, untilAborted(bytes, signal));
      return new Response(null, { status: 201 });
    },
  });
  return [has, put];
}

/** Fails when the upload is cut off, so that a partial file is discarded. */
async function* untilAborted(
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of bytes) {
    signal.throwIfAborted();
    yield chunk;
  }
  if (signal.aborted) throw new HttpError(400, 'upload_cut', 'the upload broke off; send it again');
}
