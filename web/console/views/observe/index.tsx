import { Empty, Page } from '../../parts/index.tsx';

export default function View() {
  return (
    <Page title="observe">
      <Empty title="Nothing here yet." />
    </Page>
  );
}
