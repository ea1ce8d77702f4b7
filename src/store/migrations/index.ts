import type { Migration } from 'kysely/migration';
import { up as agentPlane } from './001-agent-plane.ts';
import { up as observed } from './002-observed.ts';
import { up as peerScopes } from './003-peer-scopes.ts';
import { up as labKernels } from './004-lab-kernels.ts';
import { up as changeSets } from './005-change-sets.ts';
import { up as conversations } from './006-conversations.ts';
import { up as webhooks } from './007-webhooks.ts';
import { up as nestedWorkflows } from './008-nested-workflows.ts';
import { up as calls } from './009-calls.ts';
import { up as responses } from './010-responses.ts';
import { up as labBenches } from './011-lab-benches.ts';
import { up as spans } from './012-spans.ts';
import { up as taskLists } from './013-task-lists.ts';

/** Migrations, in the order of their names. A released migration is never changed; a later one corrects it. */
export const migrations: Readonly<Record<string, Migration>> = {
  '001-agent-plane': { up: agentPlane },
  '002-observed': { up: observed },
  '003-peer-scopes': { up: peerScopes },
  '004-lab-kernels': { up: labKernels },
  '005-change-sets': { up: changeSets },
  '006-conversations': { up: conversations },
  '007-webhooks': { up: webhooks },
  '008-nested-workflows': { up: nestedWorkflows },
  '009-calls': { up: calls },
  '010-responses': { up: responses },
  '011-lab-benches': { up: labBenches },
  '012-spans': { up: spans },
  '013-task-lists': { up: taskLists },
};
