import { docsPage } from '../../api-docs/page.ts';
import { balanceBody, listBody, modelBody } from '../catalog/bodies.ts';
import { WireError } from '../../wires/core/error.ts';
import { chatWire } from '../../wires/chat/client.ts';
import { completionsWire } from '../../wires/completions/client.ts';
import { messagesWire } from '../../wires/messages/client.ts';
import { responsesWire } from '../../wires/responses/client.ts';
import type { ClientWire } from '../../wires/core/wire.ts';
import { jsonAnswer } from './answers.ts';
import { type Answer } from '../../http/deliver.ts';
import type { Asked } from './asked.ts';
import { complete } from './completion.ts';
import { embed } from './embedding.ts';
import { openapiDocument } from './openapi.ts';
import type { GatewayParts } from './parts.ts';
import { readJsonObject } from './request-body.ts';
import type { Priced } from './told.ts';

/** A route of the gateway; its answer may reject with `WireError`, `StoreError` or `ClientGone`. */
export interface GatewayRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** As `/v1/keys/{provider}`. */
  readonly path: string;
  readonly answer: (asked: Asked, params: Readonly<Record<string, string>>) => Promise<Answer>;
  readonly errorBody?: ClientWire['errorBody'];
  /** It costs money, and is told to who watches. */
  readonly priced?: Priced;
}

/** @param basePath where the gateway is mounted */
export function gatewayRoutes(parts: GatewayParts, basePath: string): GatewayRoute[] {
  const routes: GatewayRoute[] = [
    ...servedRoutes(parts),
    {
      method: 'GET',
      path: '/openapi.json',
      answer: async ({ receipt }) =>
        jsonAnswer(receipt, 200, JSON.stringify(openapiDocument(routes, basePath))),
    },
    {
      method: 'GET',
      path: '/docs',
      async answer({ receipt }) {
        const { html, headers } = docsPage(openapiDocument(routes, basePath), `${basePath}/openapi.json`);
        return jsonAnswer(receipt, 200, html, headers);
      },
    },
  ];
  return routes;
}

const servedRoutes = (parts: GatewayParts): GatewayRoute[] => [
  ...completionRoutes(parts),
  ...catalogRoutes(parts),
  ...keyRoutes(parts),
  {
    method: 'GET',
    path: '/health',
    answer: async ({ receipt }) => jsonAnswer(receipt, 200, '{"status":"ok"}'),
  },
  {
    // What balancers ask: whether requests can be served, and their money kept.
    method: 'GET',
    path: '/ready',
    async answer({ receipt }) {
      await parts.ready();
      return jsonAnswer(receipt, 200, '{"status":"ready"}');
    },
  },
];

const completionRoutes = (parts: GatewayParts): GatewayRoute[] => [
  ...(
    [
      ['/v1/chat/completions', chatWire],
      ['/v1/messages', messagesWire],
      ['/v1/responses', responsesWire],
      ['/v1/completions', completionsWire],
    ] as const
  ).map(
    ([path, wire]): GatewayRoute => ({
      method: 'POST',
      path,
      answer: (asked) => complete(parts, wire, asked),
      errorBody: wire.errorBody,
      priced: { wire: wire.name, operation: wire.name === 'completions' ? 'text_completion' : 'chat' },
    }),
  ),
  {
    method: 'POST',
    path: '/v1/embeddings',
    answer: (asked) => embed(parts, asked),
    priced: { wire: 'embeddings', operation: 'embeddings' },
  },
];

const catalogRoutes = ({ authenticator, catalog, ledger, credentials }: GatewayParts): GatewayRoute[] => [
  {
    method: 'GET',
    path: '/v1/catalog',
    answer: async ({ receipt }) => jsonAnswer(receipt, 200, JSON.stringify(listBody(catalog.list()))),
  },
  {
    method: 'GET',
    path: '/v1/models',
    async answer({ receipt, header }) {
      const { key, accountId } = await authenticator.confirm(header);
      const models = await catalog.listFor(key.models, (provider) => credentials.find(accountId, provider));
      return jsonAnswer(receipt, 200, JSON.stringify(listBody(models)));
    },
  },
  {
    method: 'GET',
    path: '/v1/models/{id}',
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
    async answer({ receipt, header }) {
      const { accountId } = await authenticator.confirm(header);
      return jsonAnswer(receipt, 200, JSON.stringify(balanceBody(await ledger.balance(accountId))));
    },
  },
];

/** A credential and its URL: longer is none. */
const mostKeyBytes = 64 * 1024;

const keyRoutes = ({ authenticator, credentials }: GatewayParts): GatewayRoute[] => [
  {
    method: 'GET',
    path: '/v1/keys',
    async answer({ receipt, header }) {
      const { accountId } = await authenticator.confirm(header);
      return jsonAnswer(receipt, 200, JSON.stringify({ data: await credentials.list(accountId) }));
    },
  },
  {
    method: 'PUT',
    path: '/v1/keys/{provider}',
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
