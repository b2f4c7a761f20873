// Runs a command under a lock of Curator: HOSTS PATH lock|read|write COMMAND [ARG]...

import java.util.Arrays;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

class CuratorLock {
    public static void main(String[] args) throws Exception {
        CuratorFramework zookeeper = CuratorFrameworkFactory.newClient(args[0], 20000, 60000, new RetryOneTime(100));
        zookeeper.start();
        InterProcessMutex lock = switch (args[2]) {
            case "read" -> new InterProcessReadWriteLock(zookeeper, args[1]).readLock();
            case "write" -> new InterProcessReadWriteLock(zookeeper, args[1]).writeLock();
            default -> new InterProcessMutex(zookeeper, args[1]);
        };
        lock.acquire();
        new ProcessBuilder(Arrays.asList(args).subList(3, args.length)).inheritIO().start().waitFor();
        lock.release();
        zookeeper.close();
    }
}
