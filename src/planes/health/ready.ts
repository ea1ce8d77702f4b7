import { z } from 'zod';
import { hostEnvelope, HttpError } from '../../http/error.ts';
import { defineRoute, type Plane } from '../../http/route.ts';
import { hostError } from '../error-schema.ts';
import { type ReadyModel, type Resident, toHttpError } from '../resident.ts';

const ready = z
  .object({
    status: z.literal('ready'),
    models: z
      .array(
        z.object({ id: z.string(), status: z.string().describe('`ready`, or the code of why it is not.') }),
      )
      .optional()
      .describe('All loaded models, the resident one first, where the host keeps several (`--resident`).'),
  })
  .meta({ id: 'Ready' });

/** @param draining aborted when the host stops and finishes the requests that run */
export function createReadyPlane(resident: Resident, draining: AbortSignal | undefined): Plane {
  return {
    name: 'ready',
    summary: 'Readiness, for load balancers.',
    prefixes: ['/ready'],
    envelope: hostEnvelope,
    errorSchema: hostError,
    routes: [
      defineRoute({
        method: 'GET',
        path: '/ready',
        operationId: 'getReady',
        summary: 'Check that requests would be served at once',
        description:
          'Unlike /health, it also answers 503 without a model, while another model is loaded in place of the resident one ' +
          '(`model_swapping`), while the GPU is replaced (`device_lost`), and while the host stops (`shutting_down`).',
        responses: {
          200: { description: 'Requests are served.', content: { 'application/json': ready } },
          503: { description: 'Why they are not.', content: { 'application/json': hostError } },
        },
        handle() {
          if (draining?.aborted) throw notReady('shutting_down', 'The host is shutting down.');
          requireServing(resident);
          const body: z.infer<typeof ready> = {
            status: 'ready',
            ...(resident.keepsSeveral ? { models: resident.models.map(toState) } : {}),
          };
          return Response.json(body, { headers: { 'cache-control': 'no-store' } });
        },
      }),
    ],
  };
}

/** @throws HttpError 503 that states why the resident model serves no requests */
function requireServing(resident: Resident): void {
  const { state } = resident;
  if (state.kind === 'loading' && !state.isFirst)
    throw notReady('model_swapping', 'Another model is being loaded; requests wait for it.');
  const { unavailable } = resident.requireModel().engine;
  if (unavailable) throw toHttpError(unavailable);
}

const toState = ({ engine: { model, unavailable } }: ReadyModel) => ({
  id: model.id,
  status: unavailable?.code ?? 'ready',
});

const notReady = (code: string, message: string) =>
  new HttpError(503, code, message, { headers: { 'retry-after': '1' } });
