import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.xerial.snappy.SnappyError;

/** Prints what Kafka reads from each line of a file, CODEC MAGIC HEX, as hex; "refused" if it does not read it. */
public class Decompressed {
    public static void main(String[] arguments) throws Exception {
        PrintStream output = new PrintStream(new BufferedOutputStream(System.out));
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split(" ", -1);
            Compression codec = Compression.of(words[0]).build();
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words[2]));
            String read;
            try (InputStream stream = codec.wrapForInput(bytes, Byte.parseByte(words[1]), BufferSupplier.create())) {
                read = HexFormat.of().formatHex(stream.readAllBytes());
            } catch (IOException | RuntimeException | SnappyError refused) {
                read = "refused";
            }
            output.println(read);
        }
        output.flush();
    }
}
