import type { Migration } from 'kysely/migration';
import { up as ledger } from './001-ledger.ts';
import { up as credentials } from './002-credentials.ts';
import { up as usage } from './003-usage.ts';
import { up as changes } from './004-changes.ts';
import { up as budgets } from './005-budgets.ts';
import { up as keyLimits } from './006-key-limits.ts';
import { up as budgetNotices } from './007-budget-notices.ts';
import { up as configVersions } from './008-config-versions.ts';
import { up as usageDays } from './009-usage-days.ts';
import { up as cache } from './010-cache.ts';
import { up as archives } from './011-archives.ts';
import { up as requestDetails } from './012-request-details.ts';
import { up as disabledDeployments } from './013-disabled-deployments.ts';
import { up as requestLists } from './014-request-lists.ts';

/** Migrations, in the order of their names. A released migration is never changed; a later one corrects it. */
export const migrations: Readonly<Record<string, Migration>> = {
  '001-ledger': { up: ledger },
  '002-credentials': { up: credentials },
  '003-usage': { up: usage },
  '004-changes': { up: changes },
  '005-budgets': { up: budgets },
  '006-key-limits': { up: keyLimits },
  '007-budget-notices': { up: budgetNotices },
  '008-config-versions': { up: configVersions },
  '009-usage-days': { up: usageDays },
  '010-cache': { up: cache },
  '011-archives': { up: archives },
  '012-request-details': { up: requestDetails },
  '013-disabled-deployments': { up: disabledDeployments },
  '014-request-lists': { up: requestLists },
};
