/** Forms of accounts. */
import { useState } from 'react';
import { Button } from '../../../ui/index.tsx';
import { api, unwrap, type Account } from '../../api.ts';
import { FormDialog } from '../../parts/form-dialog.tsx';
import { useAccounts, useChange } from '../../queries.ts';

const optional = (text: string) => text.trim() || undefined;

/** A button that creates an account. */
export function NewAccount({
  parent = '',
  title = 'Create an account',
}: {
  parent?: string;
  title?: string;
}) {
  const [isOpen, setOpen] = useState(false);
  const accounts = useAccounts().data ?? [];
  const create = useChange((values: Record<'name' | 'parent' | 'credit_usd' | 'included_usd', string>) => {
    const credit = optional(values.credit_usd);
    const included = optional(values.included_usd);
    const above = optional(values.parent);
    return unwrap(
      api.POST('/admin/v1/accounts', {
        body: {
          name: values.name.trim(),
          ...(above === undefined ? {} : { parent: above }),
          ...(credit === undefined ? {} : { credit_usd: credit }),
          ...(included === undefined ? {} : { included_usd: included }),
        },
      }),
    );
  });
  return (
    <>
      <Button {...(parent === '' ? { kind: 'primary' } : {})} onClick={() => setOpen(true)}>
        {title}
      </Button>
      {isOpen && (
        <FormDialog
          title={title}
          action="Create"
          fields={[
            { name: 'name', label: 'Name' },
            {
              name: 'parent',
              label: 'Parent account',
              hint: 'Name or id. Its budgets also limit this account; its credits do not pay for it. Empty: none.',
              options: accounts.map(({ name }) => ({ value: name })),
            },
            { name: 'credit_usd', label: 'Credits in US dollars', hint: 'As 25 or 0.5. Empty: none.' },
            {
              name: 'included_usd',
              label: 'Included amount in US dollars',
              hint: 'Spent before credits. Empty: none.',
            },
          ]}
          initial={{ name: '', parent, credit_usd: '', included_usd: '' }}
          submit={(values) => create.mutateAsync(values)}
          onClose={() => setOpen(false)}
        />
      )}
    </>
  );
}

const path = (account: Account) => ({ params: { path: { account: account.id } } });

/** Adds credits. */
export function AddCredits({ account, onClose }: { account: Account; onClose: () => void }) {
  const credit = useChange(({ usd, note }: Record<'usd' | 'note', string>) =>
    unwrap(
      api.POST('/admin/v1/accounts/{account}/credits', {
        ...path(account),
        body: { usd: usd.trim(), ...(note.trim() === '' ? {} : { note: note.trim() }) },
      }),
    ),
  );
  return (
    <FormDialog
      title={`Add credits to ${account.name}`}
      action="Add"
      fields={[
        {
          name: 'usd',
          label: 'US dollars',
          hint: 'Added to the balance. A negative amount, as -1.25, corrects a mistake.',
        },
        { name: 'note', label: 'Note', hint: 'Shown in the log of changes.' },
      ]}
      initial={{ usd: '', note: '' }}
      submit={(values) => credit.mutateAsync(values)}
      onClose={onClose}
    />
  );
}

/** Renames or moves an account. */
export function ChangeAccount({
  account,
  parentName,
  onClose,
}: {
  account: Account;
  parentName: string;
  onClose: () => void;
}) {
  const accounts = useAccounts().data ?? [];
  const change = useChange(({ name, parent }: Record<'name' | 'parent', string>) =>
    unwrap(
      api.PATCH('/admin/v1/accounts/{account}', {
        ...path(account),
        body: {
          ...(name.trim() === account.name ? {} : { name: name.trim() }),
          ...(parent.trim() === parentName ? {} : { parent: parent.trim() || null }),
        },
      }),
    ),
  );
  return (
    <FormDialog
      title={`Change ${account.name}`}
      action="Save"
      fields={[
        { name: 'name', label: 'Name' },
        {
          name: 'parent',
          label: 'Parent account',
          hint: 'Name or id. Its budgets also limit this account. Empty: none.',
          options: accounts.filter(({ id }) => id !== account.id).map(({ name }) => ({ value: name })),
        },
      ]}
      initial={{ name: account.name, parent: parentName }}
      submit={(values) => change.mutateAsync(values)}
      onClose={onClose}
    />
  );
}

export const setDisabled = (account: Account, disabled: boolean) =>
  unwrap(api.PATCH('/admin/v1/accounts/{account}', { ...path(account), body: { disabled } }));
