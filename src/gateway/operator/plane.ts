import { z } from 'zod';
import { HttpError, hostEnvelope } from '../../http/error.ts';
import { defineRoute, type Plane } from '../../http/route.ts';
import { errorMessage } from '../../util/error-message.ts';
import type { GatewayMetrics } from '../../telemetry/gateway-metrics.ts';
import { ProcessMetrics } from '../../telemetry/process-metrics.ts';
import { formatExposition } from '../../telemetry/prometheus-text.ts';
import type { Gateway } from '../open.ts';
import { operatorErrorSchema } from './admin-schemas.ts';

export interface OperatorPlaneOptions {
  readonly gateway: Pick<Gateway, 'state' | 'checkReady'>;
  readonly metrics: GatewayMetrics;
  readonly version: string;
}

const status = z.object({ status: z.literal(['ok', 'ready']) }).meta({ id: 'Status' });

/** What operators and their tools ask a gateway. */
export function createOperatorPlane({ gateway, metrics, version }: OperatorPlaneOptions): Plane {
  const processMetrics = new ProcessMetrics();
  return {
    name: 'operator',
    summary: 'For the operator of the gateway.',
    prefixes: ['/'],
    envelope: hostEnvelope,
    errorSchema: operatorErrorSchema,
    routes: [
      defineRoute({
        method: 'GET',
        path: '/metrics',
        operationId: 'getMetrics',
        summary: 'Get the metrics for Prometheus',
        responses: {
          200: {
            description: 'Prometheus text format.',
            content: { 'text/plain': z.string().meta({ id: 'Metrics' }) },
          },
        },
        handle() {
          const info = {
            name: 'lathe_gateway_info',
            type: 'gauge',
            help: 'The gateway.',
            samples: [{ value: 1, labels: { version } }],
          } as const;
          const families = [info, ...metrics.families(gateway.state()), ...processMetrics.families()];
          return new Response(formatExposition(families), {
            headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' },
          });
        },
      }),
      defineRoute({
        method: 'GET',
        path: '/health',
        operationId: 'getHealth',
        summary: 'Check that the gateway is alive',
        responses: { 200: { description: 'It is alive.', content: { 'application/json': status } } },
        handle: () => Response.json({ status: 'ok' }),
      }),
      defineRoute({
        method: 'GET',
        path: '/ready',
        operationId: 'getReady',
        summary: 'Check that requests can be served and charged',
        responses: {
          200: { description: 'They can.', content: { 'application/json': status } },
          503: {
            description: 'The database is unavailable, or the gateway stops.',
            content: { 'application/json': operatorErrorSchema },
          },
        },
        async handle() {
          try {
            await gateway.checkReady();
          } catch (error) {
            throw new HttpError(503, 'not_ready', errorMessage(error));
          }
          return Response.json({ status: 'ready' });
        },
      }),
    ],
  };
}
