// Threads that allocate, compress outside the Java heap and hand over; the same sums every time.
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.Deflater;

public class Threads {
  static long work(int seed) {
    TreeMap<String, String> map = new TreeMap<>();
    for (int i = 0; i < 20000; ++i) map.put("k" + (i * seed) % 20011, "v".repeat(i % 9));
    CRC32 sum = new CRC32();
    for (int round = 0; round < 200; ++round) {
      ByteBuffer direct = ByteBuffer.allocateDirect(4096 + round * 64);
      for (int i = 0; i < 512; ++i) direct.putInt(i * seed + round);
      Deflater deflater = new Deflater(round % 9 + 1);  // zlib's state is the C library's memory
      direct.flip();
      deflater.setInput(direct);
      deflater.finish();
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      byte[] part = new byte[256];
      while (!deflater.finished()) out.write(part, 0, deflater.deflate(part));
      deflater.end();
      sum.update(out.toByteArray());
    }
    sum.update(map.toString().getBytes());
    return sum.getValue();
  }

  public static void main(String[] arguments) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(8);
    List<Callable<Long>> jobs = new ArrayList<>();
    for (int seed = 1; seed <= 40; ++seed) {
      final int mine = seed;
      jobs.add(() -> work(mine));
    }
    for (Future<Long> each : pool.invokeAll(jobs)) System.out.println(each.get());
    pool.shutdown();
    for (int i = 0; i < 500; ++i) {  // each with a stack and a thread's end
      Thread short_lived = new Thread(() -> new Deflater().end());
      short_lived.start();
      short_lived.join();
    }
    System.out.println("done");
  }
}
