import { Empty, Page } from '../../parts/index.tsx';

export default function View() {
  return (
    <Page title="tasks">
      <Empty title="Nothing here yet." />
    </Page>
  );
}
