import { it } from 'vitest';
import { openapiDocument } from '../../src/planes/openapi.ts';
import * as o from '../../src/planes/openapi.ts';
import { agentPlane } from '../../src/planes/agent/plane.ts';
import { workflowRoutes } from '../../src/planes/agent/workflows-routes.ts';
it('x', () => { console.log(Object.keys(o)); const f = Object.values(o).find((x) => typeof x === 'function') as any; const d = JSON.stringify(f({ planes: [agentPlane(workflowRoutes({} as any))] , version: '1'})); console.log(d?.length, d?.slice(0, 3000)); });
