import { z } from 'zod';
import { docsPage } from '../../api-docs/page.ts';
import { htmlPage, openapi } from '../../api-docs/schema.ts';
import { credentialRequest, storedCredential } from '../access/credential-body.ts';
import { balance, balanceBody, catalogList, catalogModel, listBody, modelBody } from '../catalog/bodies.ts';
import { WireError } from '../../wires/core/error.ts';
import { chatWire } from '../../wires/chat/client.ts';
import { chatBody } from '../../wires/chat/request-schema.ts';
import { completionsWire } from '../../wires/completions/client.ts';
import { completionsBody } from '../../wires/completions/facts.ts';
import { embeddingsBody } from '../../wires/embeddings/facts.ts';
import { messagesBody } from '../../wires/messages/body-schema.ts';
import { messagesWire } from '../../wires/messages/client.ts';
import { responsesBody } from '../../wires/responses/body-schema.ts';
import { responsesWire } from '../../wires/responses/client.ts';
import type { ClientWire } from '../../wires/core/wire.ts';
import { jsonAnswer } from './answers.ts';
import { type Answer } from '../../http/deliver.ts';
import type { Asked } from './asked.ts';
import { complete } from './completion.ts';
import { embed } from './embedding.ts';
import { type GatewayOperation, openapiDocument } from './openapi.ts';
import type { GatewayParts } from './parts.ts';
import { readJsonObject } from './request-body.ts';

/** A route of the gateway; its answer may reject with `WireError`, `StoreError` or `ClientGone`. */
export interface GatewayRoute extends GatewayOperation {
  readonly answer: (asked: Asked, params: Readonly<Record<string, string>>) => Promise<Answer>;
  readonly errorBody?: ClientWire['errorBody'];
}

/** @param basePath where the gateway is mounted */
export function gatewayRoutes(parts: GatewayParts, basePath: string): GatewayRoute[] {
  const routes: GatewayRoute[] = [
    ...servedRoutes(parts),
    {
      method: 'GET',
      path: '/openapi.json',
      summary: 'This document',
      isOpen: true,
      answerBody: openapi,
      answer: async ({ receipt }) => jsonAnswer(receipt, 200, JSON.stringify(written())),
    },
    {
      method: 'GET',
      path: '/docs',
      summary: 'This document, for reading',
      isOpen: true,
      answerBody: htmlPage,
      mediaType: 'text/html',
      async answer({ receipt }) {
        const { html, headers } = docsPage(written(), `${basePath}/openapi.json`);
        return jsonAnswer(receipt, 200, html, headers);
      },
    },
  ];
  let cache: ReturnType<typeof openapiDocument> | undefined;
  const written = () => (cache ??= openapiDocument(routes, basePath));
  return routes;
}

const status = z.object({ status: z.literal(['ok', 'ready']) }).meta({ id: 'Status' });

const servedRoutes = (parts: GatewayParts): GatewayRoute[] => [
  ...completionRoutes(parts),
  ...catalogRoutes(parts),
  ...keyRoutes(parts),
  {
    method: 'GET',
    path: '/health',
    summary: 'Whether it lives',
    isOpen: true,
    answerBody: status,
    answer: async ({ receipt }) => jsonAnswer(receipt, 200, '{"status":"ok"}'),
  },
  {
    // What balancers ask: whether requests can be served, and their money kept.
    method: 'GET',
    path: '/ready',
    summary: 'Whether it can serve, and keep the money of it',
    isOpen: true,
    answerBody: status,
    refusals: { 503: 'The database is away.' },
    async answer({ receipt }) {
      await parts.ready();
      return jsonAnswer(receipt, 200, '{"status":"ready"}');
    },
  },
];

/** An answer whose members are another's to say. */
const as = (id: string, what: string) => z.looseObject({}).meta({ id, description: `As ${what}.` });

const completionRoutes = (parts: GatewayParts): GatewayRoute[] => [
  ...(
    [
      {
        wire: chatWire,
        path: '/v1/chat/completions',
        summary: "A completion on OpenAI's chat wire, of every model of the catalog",
        body: chatBody,
        answerBody: as('ChatCompletion', "OpenAI's chat completion"),
      },
      {
        wire: messagesWire,
        path: '/v1/messages',
        summary: "A message on Anthropic's wire, of the models of that family",
        body: messagesBody,
        answerBody: as(
          'Message',
          "Anthropic's message; a stream has an event svc_receipt after message_stop",
        ),
      },
      {
        wire: responsesWire,
        path: '/v1/responses',
        summary: "A response on OpenAI's responses wire, stateless, of every model of the catalog",
        body: responsesBody,
        answerBody: as('Response', "OpenAI's response"),
      },
      {
        wire: completionsWire,
        path: '/v1/completions',
        summary: "A completion of a text, OpenAI's older wire",
        body: completionsBody,
        answerBody: as('Completion', "OpenAI's text completion"),
      },
    ] as const
  ).map(
    ({ wire, ...about }): GatewayRoute => ({
      method: 'POST',
      ...about,
      answer: (asked) => complete(parts, wire, asked),
      errorBody: wire.errorBody,
      priced: { wire: wire.name, operation: wire.name === 'completions' ? 'text_completion' : 'chat' },
    }),
  ),
  {
    method: 'POST',
    path: '/v1/embeddings',
    summary: 'Texts as vectors, of models with the capability embeddings',
    body: embeddingsBody,
    answerBody: as('EmbeddingList', "OpenAI's list of embeddings"),
    answer: (asked) => embed(parts, asked),
    priced: { wire: 'embeddings', operation: 'embeddings' },
  },
];

const catalogRoutes = ({ authenticator, catalog, ledger, credentials }: GatewayParts): GatewayRoute[] => [
  {
    method: 'GET',
    path: '/v1/catalog',
    summary: 'Every model and its prices',
    isOpen: true,
    answerBody: catalogList,
    answer: async ({ receipt }) => jsonAnswer(receipt, 200, JSON.stringify(listBody(catalog.list()))),
  },
  {
    method: 'GET',
    path: '/v1/models',
    summary: 'The models that this key may use',
    answerBody: catalogList,
    async answer({ receipt, header }) {
      const { key, accountId } = await authenticator.confirm(header);
      const models = await catalog.listFor(key.models, (provider) => credentials.find(accountId, provider));
      return jsonAnswer(receipt, 200, JSON.stringify(listBody(models)));
    },
  },
  {
    method: 'GET',
    path: '/v1/models/{id}',
    summary: 'One of them',
    params: { id: 'As GET /v1/models names it; it may hold slashes.' },
    answerBody: catalogModel,
    refusals: { 404: 'model_not_found' },
    async answer({ receipt, header }, { id = '' }) {
      const { key, accountId } = await authenticator.confirm(header);
      receipt.requestedModel = receipt.effectiveModel = id;
      const { model } = await catalog.resolve(id, {
        models: key.models,
        own: (provider) => credentials.find(accountId, provider),
        fallbacks: [],
      });
      receipt.effectiveModel = model.id;
      return jsonAnswer(receipt, 200, JSON.stringify(modelBody(model)));
    },
  },
  {
    method: 'GET',
    path: '/v1/balance',
    summary: 'What the account has left, in nanodollars',
    answerBody: balance,
    async answer({ receipt, header }) {
      const { accountId } = await authenticator.confirm(header);
      return jsonAnswer(receipt, 200, JSON.stringify(balanceBody(await ledger.balance(accountId))));
    },
  },
];

/** A credential and its URL: longer is none. */
const mostKeyBytes = 64 * 1024;

const params = { provider: 'The id of a provider that takes credentials of its callers.' };

const keyRoutes = ({ authenticator, credentials }: GatewayParts): GatewayRoute[] => [
  {
    method: 'GET',
    path: '/v1/keys',
    summary: "The account's own credentials of providers, without the secrets",
    answerBody: z.object({ data: z.array(storedCredential) }).meta({ id: 'CredentialList' }),
    async answer({ receipt, header }) {
      const { accountId } = await authenticator.confirm(header);
      return jsonAnswer(receipt, 200, JSON.stringify({ data: await credentials.list(accountId) }));
    },
  },
  {
    method: 'PUT',
    path: '/v1/keys/{provider}',
    summary: 'Stores one, sealed, after the provider took it',
    params,
    body: credentialRequest,
    answerBody: storedCredential,
    refusals: { 404: 'provider_not_found', 422: 'The provider rejects it; nothing is stored.' },
    async answer(asked, { provider = '' }) {
      const { accountId } = await authenticator.confirm(asked.header);
      const { value } = await readJsonObject(asked, mostKeyBytes);
      await credentials.put(accountId, provider, value);
      const stored = (await credentials.list(accountId)).find((one) => one.provider === provider);
      return jsonAnswer(asked.receipt, 200, JSON.stringify(stored ?? {}));
    },
  },
  {
    method: 'DELETE',
    path: '/v1/keys/{provider}',
    summary: 'Removes one',
    params,
    answerBody: z
      .object({ provider: z.string(), deleted: z.literal(true) })
      .meta({ id: 'CredentialDeleted' }),
    refusals: { 404: 'credential_not_found' },
    async answer({ receipt, header }, { provider = '' }) {
      const { accountId } = await authenticator.confirm(header);
      if (!(await credentials.remove(accountId, provider)))
        throw new WireError(
          404,
          'invalid_request_error',
          `No credential of ${provider.slice(0, 100)} is stored; GET /v1/keys lists those that are.`,
          { code: 'credential_not_found', param: 'provider' },
        );
      return jsonAnswer(receipt, 200, JSON.stringify({ provider, deleted: true }));
    },
  },
];
