import { hostError } from '../error-schema.ts';
import { hostEnvelope, Problem } from '../problem.ts';
import type { Resident } from '../resident.ts';
import { defineRoute, type Plane } from '../route.ts';

/** What the lab will list. The plane is mounted so that its clients learn why they get nothing. */
const lists = {
  graph: 'The execution topology',
  parts: 'Components and slots',
  kernels: 'Components and slots, by another name',
  ops: 'Descriptors of the bindable ops',
  parity: 'The parity mode',
  configs: 'Names of saved configs',
} as const;

/** The kernel lab: 503 without a resident model, and for now also with one, because this build has no lab. */
export function labPlane(resident: Resident): Plane {
  return {
    name: 'lab',
    summary: 'The kernel lab; this build does not have it yet.',
    prefix: '/lab/v1',
    envelope: hostEnvelope,
    errorSchema: hostError,
    routes: Object.entries(lists).map(([noun, summary]) =>
      defineRoute({
        method: 'GET',
        path: `/lab/v1/${noun}`,
        operationId: `getLab${noun.slice(0, 1).toUpperCase()}${noun.slice(1)}`,
        summary,
        answers: {
          503: {
            description: 'No model is resident, or the build has no lab.',
            content: { 'application/json': hostError },
          },
        },
        handle() {
          resident.require();
          throw new Problem(503, 'lab_unavailable', 'This build of the host has no kernel lab yet.');
        },
      }),
    ),
  };
}
