import { useState } from 'react';
import { formatRelativeTime, formatTime } from '../../../ui/format.ts';
import { Badge, Button, Confirm, Empty, FaultNote, Panel, Table } from '../../../ui/index.tsx';
import { api, type Budget, unwrap } from '../../api.ts';
import css from '../../gateway.module.css';
import { formatPeriod, reachedNotice } from '../../format.ts';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { Loaded } from '../../parts/loaded.tsx';
import { SpendMeter } from '../../parts/meter.tsx';
import { useBudgets, useChange } from '../../queries.ts';

type Owner = { readonly key: string } | { readonly account: string };

/** Budgets of a key or an account: what may be spent in a period, and what is. */
export function BudgetPanel({ owner }: { owner: Owner }) {
  const [open, setOpen] = useState<'new' | Budget>();
  const [removed, setRemoved] = useState<Budget>();
  const id = 'key' in owner ? owner.key : owner.account;
  const budgets = useBudgets();
  const remove = useChange((budget: Budget) =>
    unwrap(api.DELETE('/admin/v1/budgets/{budget}', { params: { path: { budget: budget.id } } })),
  );
  return (
    <Panel title="Budgets" tools={<Button onClick={() => setOpen('new')}>Set a budget</Button>}>
      <Loaded read={budgets} what="the budgets">
        {(all) => {
          const own = all.filter(({ owner_id: of }) => of === id);
          if (own.length === 0)
            return (
              <Empty title="No budget.">
                A budget limits what may be spent in a day, week, month or rolling period. Requests beyond it
                are refused.
              </Empty>
            );
          return (
            <Table
              caption="Budgets"
              rows={own}
              keyOf={({ id: budget }) => budget}
              columns={[
                {
                  key: 'period',
                  head: 'Period',
                  cell: (budget) => (
                    <span className={css['stack']}>
                      <span>{formatPeriod(budget)}</span>
                      {budget.resets_at !== null && (
                        <span className={css['small']} title={formatTime(budget.resets_at)}>
                          resets {formatRelativeTime(budget.resets_at)}
                        </span>
                      )}
                    </span>
                  ),
                },
                {
                  key: 'used',
                  head: 'Used',
                  cell: (budget) => (
                    <span className={css['stack']}>
                      <SpendMeter
                        used={budget.spent_nanodollars + budget.held_nanodollars}
                        limit={budget.amount_nanodollars}
                      />
                      <NoticeBadge budget={budget} />
                    </span>
                  ),
                },
                {
                  key: 'actions',
                  head: 'Actions',
                  cell: (budget) => (
                    <span className={css['actions']}>
                      <Button
                        aria-label={`Change the budget of each ${formatPeriod(budget)}`}
                        onClick={() => setOpen(budget)}
                      >
                        Change
                      </Button>
                      <Button
                        kind="danger"
                        aria-label={`Remove the budget of each ${formatPeriod(budget)}`}
                        onClick={() => setRemoved(budget)}
                      >
                        Remove
                      </Button>
                    </span>
                  ),
                },
              ]}
            />
          );
        }}
      </Loaded>
      <p className={css['small']}>
        Notices go to the log and the webhook when 50, 80 and 100 % are spent, and at the first refused
        request.
      </p>
      {open && (
        <BudgetForm
          owner={owner}
          budget={open === 'new' ? undefined : open}
          onClose={() => setOpen(undefined)}
        />
      )}
      <Confirm
        title="Remove the budget?"
        isOpen={removed !== undefined}
        action="Remove"
        busy={remove.isPending}
        onConfirm={() => removed && remove.mutate(removed, { onSuccess: () => setRemoved(undefined) })}
        onClose={() => setRemoved(undefined)}
      >
        <p>Requests are no longer limited by it. A new budget of the same period starts at zero.</p>
        {remove.isError && <FaultNote error={remove.error} />}
      </Confirm>
    </Panel>
  );
}

/** The soft limit that was reached last. */
function NoticeBadge({ budget }: { budget: Budget }) {
  const part = reachedNotice(budget);
  if (part === undefined) return null;
  return (
    <span>
      <Badge tone={part === 1 ? 'bad' : part === 0.8 ? 'warn' : undefined}>
        notice at {part * 100} % was sent
      </Badge>
    </span>
  );
}

function BudgetForm({
  owner,
  budget,
  onClose,
}: {
  owner: Owner;
  budget: Budget | undefined;
  onClose: () => void;
}) {
  const set = useChange(({ usd, per, time_zone: zone }: Record<'usd' | 'per' | 'time_zone', string>) =>
    unwrap(
      api.POST('/admin/v1/budgets', {
        body: {
          ...owner,
          usd: usd.trim(),
          per: per.trim(),
          ...(zone.trim() === '' ? {} : { time_zone: zone.trim() }),
        },
      }),
    ),
  );
  return (
    <FormDialog
      title={budget ? 'Change the budget' : 'Set a budget'}
      action="Save"
      fields={[
        { name: 'usd', label: 'US dollars', hint: '0: only requests that cost nothing are admitted.' },
        {
          name: 'per',
          label: 'Period',
          hint: 'day, week or month of the calendar, or the last hours or days, as 12h and 30d. A budget of the same period is changed.',
          options: ['day', 'week', 'month', '12h', '30d'].map((value) => ({ value })),
        },
        {
          name: 'time_zone',
          label: 'Time zone',
          hint: 'Of a day, week or month, as Europe/Berlin. Empty: UTC, or as it is.',
        },
      ]}
      initial={{
        usd: budget ? String(budget.amount_nanodollars / 1e9) : '',
        per: budget?.period ?? 'month',
        time_zone: budget?.time_zone ?? '',
      }}
      submit={(values) => set.mutateAsync(values)}
      onClose={onClose}
    />
  );
}
