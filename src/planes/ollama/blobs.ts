import type { ModelStore } from '../model-store.ts';
import { HttpError } from '../../http/error.ts';
import { defineRoute } from '../../http/route.ts';
import { ollamaError } from '../../wires/ollama/error.ts';

/** No model is larger; the disk is asked, too. */
const limitBytes = 2 ** 40;
const params = { digest: '`sha256:` and 64 hex digits.' };
const content = { 'application/json': ollamaError };

export function blobRoutes(store: ModelStore) {
  const has = defineRoute({
    method: 'HEAD',
    path: '/api/blobs/{digest}',
    operationId: 'ollamaHasBlob',
    summary: 'Is this upload there?',
    params,
    answers: { 200: { description: 'It is.' }, 404: { description: 'It is not: send it.' } },
    async handle({ params: { digest = '' } }) {
      return new Response(null, { status: (await store.hasBlob(digest)) ? 200 : 404 });
    },
  });
  const put = defineRoute({
    method: 'POST',
    path: '/api/blobs/{digest}',
    operationId: 'ollamaPutBlob',
    summary: 'Upload a file to create a model from',
    description: 'The bytes of the file as the body. It is kept for a day, or until a model is made of it.',
    params,
    rawBody: { limitBytes },
    answers: {
      201: { description: 'It is there; no body.' },
      400: { description: 'The content is another one than the digest says.', content },
      413: { description: 'It is too large.', content },
      507: { description: 'The disk is full.', content },
    },
    async handle({ params: { digest = '' }, bytes, signal }) {
      await store.putBlob(digest, untilGone(bytes, signal));
      return new Response(null, { status: 201 });
    },
  });
  return [has, put];
}

/** Nothing is kept of an upload that breaks off. */
async function* untilGone(bytes: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  for await (const part of bytes) {
    signal.throwIfAborted();
    yield part;
  }
  if (signal.aborted) throw new HttpError(400, 'upload_cut', 'the upload broke off; send it again');
}
